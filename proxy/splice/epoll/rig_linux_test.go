package epoll

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// rig is a core on event loops, with what it reported.
type rig struct {
	*splice.Core
	loops   []*loop
	records chan *record.Record
	stop    func()
}

func newRig(t testing.TB, opts splice.Options) *rig {
	t.Helper()
	return newRigOf(t, runtime.NumCPU(), opts)
}

// newRigOf is newRig with so many loops.
func newRigOf(t testing.TB, loops int, opts splice.Options) *rig {
	t.Helper()
	return newRigWith(t, opts, func(c *splice.Core) (*engine, error) { return open(c, loops, nil, nil) })
}

// newRigWith is newRig with an engine of its own.
func newRigWith(t testing.TB, opts splice.Options, open func(*splice.Core) (*engine, error)) *rig {
	t.Helper()
	r := &rig{records: make(chan *record.Record, 1<<10)}
	opts.Observe = func(service.PortName) record.Observer {
		return record.ObserverFunc(func(rec *record.Record) { r.records <- rec })
	}
	c, e := newEngineBy(t, opts, open)
	r.Core, r.loops = c, e.loops.all
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { c.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// newEngine makes a core and its engine, which do not run yet.
func newEngine(t testing.TB, loops int, opts splice.Options) (c *splice.Core, e *engine) {
	t.Helper()
	return newEngineBy(t, opts, func(c *splice.Core) (*engine, error) { return open(c, loops, nil, nil) })
}

func newEngineBy(t testing.TB, o splice.Options, open func(*splice.Core) (*engine, error)) (c *splice.Core, e *engine) {
	t.Helper()
	c, err := splice.New(o, func(c *splice.Core) (_ splice.Engine, err error) {
		e, err = open(c)
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, e
}

// record waits for the next record.
func (r *rig) record(t testing.TB) *record.Record {
	t.Helper()
	select {
	case rec := <-r.records:
		return rec
	case <-time.After(10 * time.Second):
		t.Fatal("no record came within 10 s")
		return nil
	}
}

// only picks one endpoint.
type only netip.AddrPort

func (o only) Join(netip.AddrPort) splice.State { return nil }

func (o only) Pick(_ netip.Addr, tried []netip.AddrPort, _ *service.Policy) (splice.Lease, bool) {
	return splice.Lease{Endpoint: netip.AddrPort(o)}, len(tried) == 0
}

func (o only) MayRetry(*service.Policy) bool { return true }

func (o only) Retried() {}

// open opens a TCP front at a loopback address, which is its only frontend.
func (r *rig) open(t testing.TB, endpoint netip.AddrPort) netip.AddrPort {
	t.Helper()
	for port := uint16(20000); ; port++ {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		view := &splice.View{
			Port:      &service.Port{},
			Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at, Protocol: inet.TCP}}},
			Endpoints: []service.Endpoint{{Addr: endpoint, Ready: true, Serving: true}},
		}
		_, err := r.Open(service.PortName{Protocol: inet.TCP}, splice.Pickers{only(endpoint)}, view, at)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
}

// serveTCP runs a TCP server for one test.
func serveTCP(t testing.TB, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func echo(c *net.TCPConn) {
	io.Copy(c, c)
	c.CloseWrite()
}

func dialTCP(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// patience is how long a test waits for what has to come; none asserts it.
const patience = time.Minute

// eventually waits for a condition.
func eventually(t testing.TB, met func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
