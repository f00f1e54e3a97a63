package splice

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// ring is the simplest Picker: round robin over a list that can be swapped.
type ring struct {
	mu     sync.Mutex
	list   []netip.AddrPort
	next   int
	leases []*lease
}

func (r *ring) Pick(_ netip.Addr, tried []netip.AddrPort) (Lease, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range r.list {
		a := r.list[r.next%len(r.list)]
		r.next++
		if !slices.Contains(tried, a) {
			l := &lease{endpoint: a}
			r.leases = append(r.leases, l)
			return Lease{Endpoint: a, State: l}, true
		}
	}
	return Lease{}, false
}

func (r *ring) set(list ...netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = list
}

// rig is a core on event loops, with what it reported.
type rig struct {
	*Core
	loops   []*loop
	records chan *Record
	rings   []*ring
	stop    func()
}

func newRig(t testing.TB, opts Options) *rig {
	t.Helper()
	return newRigOf(t, runtime.NumCPU(), opts)
}

// newRigOf is newRig with so many loops.
func newRigOf(t testing.TB, loops int, opts Options) *rig {
	t.Helper()
	r := &rig{records: make(chan *Record, 1<<16)}
	opts.Observe = func(service.PortName) Observer { return ObserverFunc(func(rec *Record) { r.records <- rec }) }
	e, err := New(opts, OpenEpoll(loops))
	if err != nil {
		t.Fatal(err)
	}
	r.Core, r.loops = e, e.engine.(*epollEngine).loops
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(func() {
		r.stop()
		for _, list := range r.rings {
			list.checkLeases(t)
		}
	})
	return r
}

// record waits for the next record.
func (r *rig) record(t testing.TB) *Record {
	t.Helper()
	select {
	case rec := <-r.records:
		return rec
	case <-time.After(10 * time.Second):
		t.Fatal("no record came within 10 s")
		return nil
	}
}

var nextPort atomic.Uint32

// open opens a front at a loopback port, which is its only frontend.
func (r *rig) open(t testing.TB, protocol service.Protocol, host string, endpoints ...netip.AddrPort) (*Front, netip.AddrPort) {
	t.Helper()
	return r.openAt(t, protocol, host, &ring{list: endpoints}, endpoints)
}

// openWith opens a TCP front whose picker is the test's own.
func (r *rig) openWith(t testing.TB, p Picker, endpoints ...netip.AddrPort) (*Front, netip.AddrPort) {
	t.Helper()
	return r.openAt(t, service.TCP, "127.0.0.1", p, endpoints)
}

func (r *rig) openAt(t testing.TB, protocol service.Protocol, host string, p Picker, endpoints []netip.AddrPort) (*Front, netip.AddrPort) {
	t.Helper()
	name := service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: protocol}
	for {
		at := netip.AddrPortFrom(netip.MustParseAddr(host), uint16(21000+nextPort.Add(1)%8000))
		if list, ok := p.(*ring); ok {
			r.rings = append(r.rings, list)
		}
		f, err := r.Open(name, Pickers{p}, viewOf(at, protocol, endpoints), at)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return f, at
	}
}

func viewOf(at netip.AddrPort, protocol service.Protocol, endpoints []netip.AddrPort) *View {
	v := &View{Port: &service.Port{}, Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at, Protocol: protocol}}}}
	for _, e := range endpoints {
		v.Endpoints = append(v.Endpoints, service.Endpoint{Addr: e, Ready: true, Serving: true, Pod: "shop/" + e.String()})
	}
	slices.SortFunc(v.Endpoints, func(a, b service.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return v
}

// serveTCP runs a TCP server for one test.
func serveTCP(t testing.TB, host string, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of descriptors, in the test of that
				time.Sleep(time.Millisecond)
				continue
			}
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
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.TCPConn)
}

func TestEcho(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			r := newRig(t, Options{})
			_, at := r.open(t, service.TCP, host, serveTCP(t, host, echo))
			c := dialTCP(t, at)
			c.Write([]byte("hello"))
			c.CloseWrite()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != "hello" {
				t.Fatalf("got %q, %v", got, err)
			}
			rec := r.record(t)
			if rec.Outcome != OutcomeOK || rec.ClosedBy != Client || rec.How != FIN || rec.BytesFromClient != 5 || rec.BytesFromEndpoint != 5 {
				t.Errorf("record %+v", rec)
			}
			if rec.Client != c.LocalAddr().(*net.TCPAddr).AddrPort() || rec.OriginalDst != at || len(rec.Attempts) != 1 {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

func TestLargeBothWays(t *testing.T) {
	r := newRig(t, Options{})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	want := make([]byte, 64<<20)
	rand.Read(want)
	c := dialTCP(t, at)
	go func() {
		c.Write(want)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	if rec := r.record(t); rec.BytesFromClient != int64(len(want)) || rec.BytesFromEndpoint != int64(len(want)) {
		t.Errorf("record %+v", rec)
	}
}

func TestUDPEcho(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			r := newRig(t, Options{Policy: service.Policy{UDPIdle: 50 * time.Millisecond}})
			_, at := r.open(t, service.UDP, host, serveUDP(t, host))
			c, err := net.Dial("udp", at.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, size := range []int{0, 1, 512, 9000, 65507} {
				if host == "::1" && size == 65507 {
					size = 65487
				}
				ask := make([]byte, size)
				rand.Read(ask)
				c.Write(ask)
				c.SetDeadline(time.Now().Add(5 * time.Second))
				got := make([]byte, 1<<16)
				n, err := c.Read(got)
				if err != nil || !bytes.Equal(got[:n], ask) {
					t.Fatalf("%d bytes: got %d, %v", size, n, err)
				}
			}
			rec := r.record(t)
			if rec.Outcome != OutcomeOK || rec.How != Timeout || rec.BytesFromClient != rec.BytesFromEndpoint {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

func serveUDP(t testing.TB, host string) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			pc.WriteTo(buf[:n], from)
		}
	}()
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Each loop keeps a processor to itself for some time; the tests' own goroutines need others.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	os.Exit(m.Run())
}
