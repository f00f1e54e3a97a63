package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// answerer is the server of Streams, in one event loop.
type answerer struct {
	poll     *poll
	tcp, udp int
	open     map[int]*incoming // by descriptor
	ticks    ticks
	stopping bool
	ends     []StreamEnd
	buf      [bufSize]byte
}

// incoming is a connection, and its greeting as far as it has come.
type incoming struct {
	stream
	greeting [greetingSize]byte
	greeted  int
	every    time.Duration
}

// Answer serves Streams by TCP and UDP at one address until in ends. At the line "stop" it has no more to send to those
// that have ended their direction. It returns what became of each connection but those of Once.
func Answer(ctx context.Context, at netip.AddrPort, in io.Reader) ([]StreamEnd, error) {
	s := &answerer{tcp: -1, udp: -1, open: map[int]*incoming{}}
	defer s.close()
	var err error
	if s.poll, err = newPoll(); err != nil {
		return nil, err
	}
	if s.tcp, err = listen(unix.SOCK_STREAM, at); err != nil {
		return nil, fmt.Errorf("listen at tcp %s: %w", at, err)
	}
	if s.udp, err = listen(unix.SOCK_DGRAM, at); err != nil {
		return nil, fmt.Errorf("listen at udp %s: %w", at, err)
	}
	for _, fd := range []int{s.tcp, s.udp} {
		if err := s.poll.add(fd, fd, unix.EPOLLIN); err != nil {
			return nil, err
		}
	}
	said, start := lines(in), time.Now()
	for ctx.Err() == nil {
		events, err := s.poll.wait(1)
		if err != nil {
			return nil, err
		}
		for i := range events {
			s.on(int(events[i].Fd), events[i].Events)
		}
		for s.ticks.at < time.Since(start).Milliseconds() {
			s.ticks.advance(s.due)
		}
		select {
		case line, more := <-said:
			if !more {
				return s.result(), nil
			}
			if line == "stop" {
				s.stop()
			}
		default:
		}
	}
	return nil, ctx.Err()
}

func (s *answerer) on(fd int, events uint32) {
	switch fd {
	case s.tcp:
		for fd := range accepted(s.tcp) {
			c := &incoming{stream: stream{fd: fd, server: true}}
			if s.poll.add(fd, fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET) != nil {
				closeFD(fd)
				continue
			}
			s.open[fd] = c
		}
	case s.udp:
		echoAll(s.udp, s.buf[:])
	default:
		if c := s.open[fd]; c != nil {
			s.step(c, events&gone != 0)
		}
	}
}

// step has a connection do what it can now. Ended: its client may have ended its direction.
func (s *answerer) step(c *incoming, ended bool) {
	if err := s.serve(c, ended); err != nil || c.inEOF && c.isEnd {
		if c.greeted == greetingSize && c.kind != Once {
			s.ends = append(s.ends, c.end(err))
		}
		delete(s.open, c.fd)
		closeFD(c.fd)
	}
}

func (s *answerer) serve(c *incoming, ended bool) error {
	if c.greeted < greetingSize {
		if done, err := s.greet(c); !done || err != nil {
			return err
		}
	}
	if c.kind != Slow || s.stopping {
		if err := c.drain(s.buf[:], ended); err != nil {
			return err
		}
	}
	switch c.kind {
	case Ask, Idle:
		c.goal = c.in
	case Once:
		if c.in >= Size {
			c.goal, c.ends = Size, true
		}
	}
	if c.inEOF && !c.ends && (c.kind != Half || s.stopping) {
		c.finish()
	}
	return c.push()
}

var errNoGreeting = errors.New("no greeting")

// greet reads the greeting. False: not all of it is there.
func (s *answerer) greet(c *incoming) (done bool, err error) {
	n, err := read(c.fd, c.greeting[c.greeted:])
	switch {
	case err == unix.EAGAIN:
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, errNoGreeting
	}
	if c.greeted += n; c.greeted < greetingSize {
		return s.greet(c)
	}
	c.kind, c.id = Kind(c.greeting[0]), binary.BigEndian.Uint32(c.greeting[4:])
	if c.kind >= kinds || string(c.greeting[1:4]) != "str" {
		return false, errNoGreeting
	}
	if c.every = c.first(); c.every > 0 {
		s.ticks.in(c.every, c.fd)
	}
	return true, nil
}

// due is a time of a connection, or of one that had its descriptor before.
func (s *answerer) due(fd int) {
	c := s.open[fd]
	if c == nil || c.every == 0 {
		return
	}
	s.ticks.in(c.every, fd)
	if c.kind == Slow && !s.stopping {
		if _, err := c.receive(s.buf[:], slowSize); err != nil {
			s.ends = append(s.ends, c.end(err))
			delete(s.open, fd)
			closeFD(fd)
			return
		}
	}
	c.later()
	s.step(c, true)
}

func (s *answerer) stop() {
	s.stopping = true
	for _, c := range s.open {
		if c.kind == Slow {
			c.goal = c.out
		}
		s.step(c, true)
	}
}

func (s *answerer) result() []StreamEnd {
	for _, c := range s.open {
		if c.greeted == greetingSize && c.kind != Once {
			s.ends = append(s.ends, c.end(nil))
		}
	}
	return s.ends
}

func (s *answerer) close() {
	for fd := range s.open {
		closeFD(fd)
	}
	for _, fd := range []int{s.tcp, s.udp} {
		if fd >= 0 {
			closeFD(fd)
		}
	}
	if s.poll != nil {
		closeFD(s.poll.fd)
	}
}
