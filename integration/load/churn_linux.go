package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Churn is a new connection for each request and response. A TCP connection is closed by the client once it has the
// reply. A UDP flow has a source address and port that no earlier flow of the run had, as long as From has some left.
type Churn struct {
	Proto string           // tcp or udp
	To    []netip.AddrPort // each connection goes to one drawn at random
	From  []netip.Addr     // source addresses of UDP flows; empty = whatever the host chooses
	At    int              // where to begin among the source addresses and ports: flows had before
	Conns int              // at once
	For   time.Duration
}

// Ports of UDP flows, by which a source address has 64,000 of them.
const (
	firstPort = 1024
	ports     = 1<<16 - firstPort
)

type slot struct {
	fd    int
	since time.Time
	sent  bool
	got   int
}

type churn struct {
	Churn
	tally
	kind    int
	next    int // flow number
	poll    *poll
	targets []unix.Sockaddr
	sources []unix.Sockaddr
	slots   []slot
	buf     [Size]byte
}

// Run makes connections for the time given, and until one succeeds. Those that fail are counted, and
// followed by another.
func (c Churn) Run(ctx context.Context) (Result, error) {
	r := &churn{Churn: c, next: c.At}
	var err error
	if r.kind, err = kind(c.Proto); err != nil {
		return Result{}, err
	}
	if len(c.To) == 0 {
		return Result{}, errors.New("no target")
	}
	for _, t := range c.To {
		r.targets = append(r.targets, sockaddr(t))
	}
	for _, f := range c.From {
		r.sources = append(r.sources, sockaddr(netip.AddrPortFrom(f, 0)))
	}
	if r.poll, err = newPoll(); err != nil {
		return Result{}, err
	}
	defer r.close()
	return r.run(ctx)
}

func (r *churn) run(ctx context.Context) (Result, error) {
	r.start = time.Now()
	for i := range r.Conns {
		r.slots = append(r.slots, slot{fd: -1})
		if err := r.open(i, r.start); err != nil {
			return Result{}, err
		}
	}
	for checked := r.start; ctx.Err() == nil; {
		events, err := r.poll.wait(100)
		if err != nil {
			return Result{}, err
		}
		for i := range events {
			if err := r.on(int(events[i].Fd), events[i].Events); err != nil {
				return Result{}, err
			}
		}
		now := time.Now()
		if r.over(now, r.For) {
			return r.result(), nil
		}
		if now.Sub(checked) > lostAfter/2 {
			checked = now
			if err := r.overdue(now); err != nil {
				return Result{}, err
			}
		}
	}
	return Result{}, ctx.Err()
}

// open starts a connection in a slot. An error here is our own host's, and ends the run.
func (r *churn) open(i int, now time.Time) error {
	to := r.To[0]
	target := r.targets[0]
	if len(r.targets) > 1 {
		k := rand.IntN(len(r.targets))
		to, target = r.To[k], r.targets[k]
	}
	fd, err := unix.Socket(family(to.Addr()), r.kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	r.slots[i] = slot{fd: fd, since: now}
	if err := r.bind(fd); err != nil {
		return err
	}
	if err := unix.Connect(fd, target); err != nil && err != unix.EINPROGRESS {
		return fmt.Errorf("connect to %s: %w", to, err)
	}
	return r.poll.add(fd, i, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLET)
}

// bind takes the next source of a UDP flow. A port that someone holds is passed over.
func (r *churn) bind(fd int) error {
	if len(r.sources) == 0 || r.kind != unix.SOCK_DGRAM {
		return nil
	}
	for {
		n := r.next
		r.next++
		sa := r.sources[n/ports%len(r.sources)]
		port := firstPort + n%ports
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			sa.Port = port
		case *unix.SockaddrInet6:
			sa.Port = port
		}
		if err := unix.Bind(fd, sa); err != unix.EADDRINUSE {
			return err
		}
	}
}

func (r *churn) on(i int, events uint32) error {
	s := &r.slots[i]
	if !s.sent && events&unix.EPOLLOUT != 0 {
		s.sent = true
		if _, err := send(s.fd, r.buf[:]); err != nil {
			return r.again(i, false)
		}
	}
	if events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
		return nil
	}
	n, err := read(s.fd, r.buf[:])
	if err == unix.EAGAIN {
		return nil
	}
	if err != nil || n == 0 {
		return r.again(i, false)
	}
	if s.got += n; s.got < Size {
		return nil
	}
	return r.again(i, true)
}

// again closes the slot's connection and opens the next.
func (r *churn) again(i int, ok bool) error {
	now := time.Now()
	if ok {
		r.took.add(now.Sub(r.slots[i].since))
	} else {
		r.failed++
	}
	closeFD(r.slots[i].fd)
	r.slots[i].fd = -1
	return r.open(i, now)
}

func (r *churn) overdue(now time.Time) error {
	limit := deadAfter
	if r.kind == unix.SOCK_DGRAM {
		limit = lostAfter
	}
	for i := range r.slots {
		if now.Sub(r.slots[i].since) < limit {
			continue
		}
		if err := r.again(i, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *churn) close() {
	for _, s := range r.slots {
		if s.fd >= 0 {
			closeFD(s.fd)
		}
	}
	closeFD(r.poll.fd)
}
