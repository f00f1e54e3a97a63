package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

type sink struct {
	poll *poll
	ln   int
	udp  *counter
	got  map[int]int64 // bytes, by descriptor
}

// Sink drops what comes by TCP and UDP until ctx ends. At the end of a stream it says how many bytes there were, and to
// a sender of Datagrams that asks how many datagrams: eight bytes, big-endian.
func Sink(ctx context.Context, at netip.AddrPort) error {
	s := &sink{ln: -1, got: map[int]int64{}}
	defer s.close()
	var err error
	if s.poll, err = newPoll(); err != nil {
		return err
	}
	if s.ln, err = listen(unix.SOCK_STREAM, at); err != nil {
		return fmt.Errorf("listen at tcp %s: %w", at, err)
	}
	if s.udp, err = newCounter(at); err != nil {
		return fmt.Errorf("listen at udp %s: %w", at, err)
	}
	for _, fd := range []int{s.ln, s.udp.fd} {
		if err := s.poll.add(fd, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		events, err := s.poll.wait(200)
		if err != nil {
			return err
		}
		for i := range events {
			switch fd := int(events[i].Fd); fd {
			case s.ln:
				s.accept()
			case s.udp.fd:
				s.udp.take()
			default:
				s.drop(fd)
			}
		}
	}
	return nil
}

func (s *sink) accept() {
	for fd := range accepted(s.ln) {
		if s.poll.add(fd, fd, unix.EPOLLIN) != nil {
			closeFD(fd)
			continue
		}
		s.got[fd] = 0
	}
}

// drop takes what is there.
func (s *sink) drop(fd int) {
	n, err := discard(fd)
	switch {
	case err == unix.EAGAIN:
		return
	case err == nil && n > 0:
		s.got[fd] += int64(n)
		return
	case err == nil:
		_, _ = send(fd, binary.BigEndian.AppendUint64(nil, uint64(s.got[fd]))) // who is gone does not ask
	}
	delete(s.got, fd)
	closeFD(fd)
}

func (s *sink) close() {
	for fd := range s.got {
		closeFD(fd)
	}
	if s.ln >= 0 {
		closeFD(s.ln)
	}
	if s.udp != nil {
		closeFD(s.udp.fd)
	}
	if s.poll != nil {
		closeFD(s.poll.fd)
	}
}
