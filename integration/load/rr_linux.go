package load

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Size is the bytes of a request and of its reply.
const Size = 64

// How long a client waits for a reply: a datagram is lost sooner than a connection is given up.
const (
	lostAfter = 250 * time.Millisecond
	deadAfter = 3 * time.Second
)

// RR is request and response on connections that stay open.
type RR struct {
	Proto string // tcp or udp
	To    netip.AddrPort
	Conns int // at once; each has one request on its way at a time
	For   time.Duration
}

type rrConn struct {
	fd   int
	sent time.Time
	got  int // bytes of the reply so far
}

type rr struct {
	RR
	tally
	poll  *poll
	conns []rrConn
	buf   [Size]byte
}

// Run connects, then exchanges for the time given, and until one was answered. A lost datagram is sent again; a broken
// connection is an error.
func (c RR) Run(ctx context.Context) (Result, error) {
	r := &rr{RR: c}
	defer r.close()
	var err error
	if r.poll, err = newPoll(); err != nil {
		return Result{}, err
	}
	for i := range c.Conns {
		if err := r.connect(i); err != nil {
			return Result{}, fmt.Errorf("connect to %s %s: %w", c.Proto, c.To, err)
		}
	}
	if err := r.exchange(ctx); err != nil {
		return Result{}, fmt.Errorf("exchange with %s %s: %w", c.Proto, c.To, err)
	}
	return r.result(), nil
}

func (r *rr) connect(i int) error {
	k, err := kind(r.Proto)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(family(r.To.Addr()), k|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, rrConn{fd: fd})
	if k == unix.SOCK_STREAM {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err := unix.Connect(fd, sockaddr(r.To)); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return r.poll.add(fd, i, unix.EPOLLIN)
}

func (r *rr) exchange(ctx context.Context) error {
	r.start = time.Now()
	for i := range r.conns {
		if err := r.ask(&r.conns[i], r.start); err != nil {
			return err
		}
	}
	for checked := r.start; ctx.Err() == nil; {
		events, err := r.poll.wait(100)
		if err != nil {
			return err
		}
		for i := range events {
			if err := r.reply(&r.conns[events[i].Fd]); err != nil {
				return err
			}
		}
		now := time.Now()
		if r.over(now, r.For) {
			return nil
		}
		if now.Sub(checked) > lostAfter/2 {
			if err := r.overdue(now); err != nil {
				return err
			}
			checked = now
		}
	}
	return ctx.Err()
}

func (r *rr) ask(c *rrConn, now time.Time) error {
	c.sent, c.got = now, 0
	_, err := send(c.fd, r.buf[:])
	if r.Proto == "udp" && err == unix.ECONNREFUSED {
		return nil // an ICMP that came for an earlier one; this one is lost
	}
	return err
}

func (r *rr) reply(c *rrConn) error {
	n, err := read(c.fd, r.buf[:])
	if err == unix.EAGAIN || r.Proto == "udp" && err == unix.ECONNREFUSED {
		return nil
	}
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("connection closed after %d exchanges", r.took.total)
	}
	if c.got += n; c.got < Size {
		return nil
	}
	now := time.Now()
	r.took.add(now.Sub(c.sent))
	return r.ask(c, now)
}

// overdue sends lost datagrams again, and gives up on connections that fell silent.
func (r *rr) overdue(now time.Time) error {
	for i := range r.conns {
		c := &r.conns[i]
		waited := now.Sub(c.sent)
		if r.Proto == "udp" && waited > lostAfter {
			r.failed++
			if err := r.ask(c, now); err != nil {
				return err
			}
		}
		if r.Proto == "tcp" && waited > deadAfter {
			return fmt.Errorf("no reply for %v", waited)
		}
	}
	return nil
}

func (r *rr) close() {
	for _, c := range r.conns {
		closeFD(c.fd)
	}
	if r.poll != nil {
		closeFD(r.poll.fd)
	}
}
