package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/platform"
)

// Target is an address that is probed.
type Target struct {
	At      netip.AddrPort
	Connect bool // to the port itself, by TCP: false asks its host alone
}

// Result is what came of a probe.
type Result struct {
	Connect Answer        // to the port; empty: it was not tried
	Took    time.Duration // of that
	Closed  Answer        // of ClosedPort of the same host
	Echo    Answer        // of a ping; empty: this process may not send one
	Path    Path          // after the probe
	Began   time.Time
}

// Answer is what came back.
type Answer string

// The answers.
const (
	Answered    Answer = "answered"    // a ping
	Accepted    Answer = "accepted"    // a connection
	Refused     Answer = "refused"     // a connection, by the host or by a filter that says so
	Nothing     Answer = "timeout"     // nothing came in time
	Unreachable Answer = "unreachable" // this host or another said so
	NoRoute     Answer = "no route"
	Forbidden   Answer = "forbidden" // by this host
	Broken      Answer = "failed"    // for another reason
)

// ClosedPort is a port that hosts refuse, unless they drop what they do not expect: tcpmux, which nobody serves.
const ClosedPort = 1

// Timeout is how long an answer may take.
const Timeout = time.Second

// Probe sends, to all targets at once, one TCP connect each, and to each host one to ClosedPort and one ping, all with
// a mark (0: none). It returns after Timeout at the latest, with the results in the order of the targets.
func Probe(ctx context.Context, targets []Target, mark uint32) []Result {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var all sync.WaitGroup
	began := time.Now()
	results, hosts := make([]Result, len(targets)), map[netip.Addr]*Result{}
	for i, t := range targets {
		if t.Connect {
			all.Go(func() { results[i].Connect, results[i].Took = connect(ctx, t.At, mark) })
		}
		at := t.At.Addr()
		if hosts[at] != nil {
			continue
		}
		host := &Result{}
		hosts[at] = host
		all.Go(func() { host.Closed, _ = connect(ctx, netip.AddrPortFrom(at, ClosedPort), mark) })
		all.Go(func() { host.Echo = ping(at, mark, Timeout) })
	}
	all.Wait()
	for at, host := range hosts {
		host.Path = PathTo(at, mark)
	}
	for i, t := range targets {
		r, host := &results[i], hosts[t.At.Addr()]
		r.Closed, r.Echo, r.Path, r.Began = host.Closed, host.Echo, host.Path, began
	}
	return results
}

// connect connects to an address, and closes the connection.
func connect(ctx context.Context, to netip.AddrPort, mark uint32) (Answer, time.Duration) {
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if mark == 0 {
			return nil
		}
		failed := raw.Control(func(fd uintptr) { err = platform.Mark(fd, mark) })
		return errors.Join(failed, err)
	}}
	d.SetMultipathTCP(false)
	began := time.Now()
	c, err := d.DialContext(ctx, "tcp", to.String())
	took := time.Since(began)
	if err != nil {
		return answerOf(err), took
	}
	c.Close()
	return Accepted, took
}

// answerOf is what the error of a socket says. Windows has numbers of its own.
func answerOf(err error) Answer {
	var timeout interface{ Timeout() bool }
	for _, a := range []struct {
		is   Answer
		when []syscall.Errno
	}{
		{Refused, []syscall.Errno{syscall.ECONNREFUSED, 10061}},
		{NoRoute, []syscall.Errno{syscall.ENETUNREACH, 10051}},
		{Unreachable, []syscall.Errno{syscall.EHOSTUNREACH, syscall.EHOSTDOWN, 10065}},
		{Forbidden, []syscall.Errno{syscall.EACCES, syscall.EPERM, 10013}},
	} {
		for _, errno := range a.when {
			if errors.Is(err, errno) {
				return a.is
			}
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return Nothing
	}
	return Broken
}
