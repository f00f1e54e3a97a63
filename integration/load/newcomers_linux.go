package load

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newcomers are new connections at a steady rate.
type newcomers struct {
	client  *client
	ticks   int64 // ms
	made    int64
	open    int
	all     []newcomer
	free    []int
	clients map[netip.AddrPort]int
	failed  []string
}

// newcomer is a connection of Once.
type newcomer struct {
	stream
	since time.Time
	spell int
	sent  bool
	used  bool
}

// tick opens as many as are due in a millisecond, and gives up those that take too long.
func (n *newcomers) tick() error {
	if n.client.stopping {
		n.overdue()
		return nil
	}
	n.ticks++
	for n.made < n.ticks*int64(n.client.Rate)/1000 {
		if err := n.connect(); err != nil {
			return fmt.Errorf("make a new connection: %w", err)
		}
		n.made++
	}
	if n.ticks%100 == 0 {
		n.overdue()
	}
	return nil
}

func (n *newcomers) connect() error {
	r := n.client
	to := r.To[int(n.made)%len(r.To)]
	fd, err := unix.Socket(family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	i := len(n.all)
	if k := len(n.free); k > 0 {
		i, n.free = n.free[k-1], n.free[:k-1]
	} else {
		n.all = append(n.all, newcomer{})
	}
	n.all[i] = newcomer{stream: stream{fd: fd, id: uint32(n.made), kind: Once, goal: Size}, used: true,
		since: time.Now(), spell: len(r.spells) - 1}
	n.open++
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		n.over(i, err)
		return nil
	}
	n.clients[localAddr(fd)]++
	return r.poll.add(fd, i|ofFresh, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

// step has one do what it can now.
func (n *newcomers) step(i int, events uint32) {
	c := &n.all[i]
	if !c.used {
		return
	}
	if !c.sent && events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		switch sent, err := send(c.fd, c.request()); {
		case err == unix.EAGAIN:
			return
		case err != nil:
			n.over(i, err)
			return
		case sent != greetingSize+Size:
			n.over(i, io.ErrShortWrite)
			return
		}
		c.sent, c.out = true, Size
	}
	if !c.sent {
		return
	}
	if err := c.drain(n.client.buf[:], true); err != nil {
		n.over(i, err)
		return
	}
	if c.inEOF {
		if c.in != Size {
			n.over(i, fmt.Errorf("%d bytes, want %d: %w", c.in, Size, io.ErrUnexpectedEOF))
			return
		}
		n.over(i, nil)
	}
}

// request is the greeting and all that a connection of Once sends.
func (s *stream) request() []byte { return append(greeting(s.kind, s.id), s.bytes(0, false, Size)...) }

func (n *newcomers) over(i int, err error) {
	c := &n.all[i]
	s := n.client.spells[c.spell]
	switch {
	case err == nil:
		s.connected.add(time.Since(c.since))
	case errors.Is(err, syscall.ECONNREFUSED):
		s.Refused++
	case isReset(err):
		s.Reset++
	case errors.Is(err, syscall.ETIMEDOUT):
		s.TimedOut++
	default:
		s.Broken++
	}
	if err != nil && len(n.failed) < 20 {
		n.failed = append(n.failed, fmt.Sprintf("%s, %s: %v", localAddr(c.fd), s.Name, err))
	}
	closeFD(c.fd)
	c.used = false
	n.open--
	n.free = append(n.free, i)
}

// newTime is how long a new connection may take in all.
const newTime = 10 * time.Second

func (n *newcomers) overdue() {
	now := time.Now()
	for i := range n.all {
		if c := &n.all[i]; c.used && now.Sub(c.since) > newTime {
			n.over(i, unix.ETIMEDOUT)
		}
	}
}

func (n *newcomers) close() {
	for i := range n.all {
		if c := &n.all[i]; c.used {
			closeFD(c.fd)
		}
	}
}
