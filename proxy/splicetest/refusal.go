package splicetest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func refusalScenarios() []scenario {
	return []scenario{
		{name: "NotAPortal", run: notAPortal},
		{name: "SourceRange", run: sourceRange},
		{name: "SourceRangeOfNode", run: sourceRangeOfNode},
		{name: "NoEndpoint", run: noEndpoint},
		{name: "NodePortAtEveryAddress", run: nodePortAtEveryAddress},
		{name: "UDPNotAPortal", run: udpNotAPortal},
		{name: "AnothersListener", run: anothersListener},
		{name: "UDPUnguarded", run: udpUnguarded},
		{name: "UDPUnknown", run: udpUnknown},
		{name: "Loop", run: loop},
		{name: "UDPLoop", run: udpLoop},
	}
}

// notAPortal: what comes straight to the proxy port is refused.
func notAPortal(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	f.moveFrontend("10.96.0.10:80")
	wantRefusal(t, d, f, record.OutcomeNotPortal)
}

// anothersListener: a connection that comes to the listener of another service port, by rules of before or because they
// share it, is served by its own, and by the oldest if several claim what was dialled.
func anothersListener(t *trial) {
	d := t.start(splice.Options{})
	other := d.serve(serving{name: "other", endpoints: []netip.AddrPort{echoServer(t)}})
	at := other.at
	other.moveFrontend("10.96.0.11:80")
	serve := func(name string, created int64) *front {
		f := d.serve(serving{name: name, endpoints: []netip.AddrPort{echoServer(t)},
			port: service.Port{Created: time.Unix(created, 0)}})
		f.moveFrontend(at.String())
		return f
	}
	wantServed := func(by *front) {
		t.Helper()
		wantEcho(t, dialTCP(t, at), "")
		if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.Service != by.Name() || rec.OriginalDst != at {
			t.Errorf("record %+v", rec)
		}
	}
	own := serve("own", 2)
	wantServed(own)
	younger := serve("a younger one that claims it", 3)
	wantServed(own)
	older := serve("the oldest", 1)
	wantServed(older)
	older.Close()
	younger.Close()
	wantServed(own)
	own.change(func(v *splice.View) {
		v.Port = &service.Port{SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
		v.Exposures = []service.Exposure{{Frontend: v.Exposures[0].Frontend, Kind: service.LoadBalancerIP}}
	})
	wantRefusal(t, d, other, record.OutcomeSourceRange)
	own.Close()
	wantRefusal(t, d, other, record.OutcomeNotPortal)
}

func sourceRange(t *trial) {
	d := t.start(splice.Options{})
	f := d.serve(serving{
		kind: service.LoadBalancerIP, endpoints: []netip.AddrPort{echoServer(t)},
		port: service.Port{SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	})
	wantRefusal(t, d, f, record.OutcomeSourceRange)
}

// sourceRangeOfNode: a client of this node dials a load balancer's address from there, where the node has it itself. It
// is admitted if the ranges contain another address of the node, which may change.
func sourceRangeOfNode(t *trial) {
	var node atomic.Pointer[[]netip.Addr]
	node.Store(&[]netip.Addr{netip.MustParseAddr("198.51.100.9")})
	d := t.start(splice.Options{NodeAddresses: func() []netip.Addr { return *node.Load() }})
	f := d.serve(serving{
		kind: service.LoadBalancerIP, endpoints: []netip.AddrPort{echoServer(t)},
		port: service.Port{SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	})
	wantRefusal(t, d, f, record.OutcomeSourceRange)
	node.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("198.51.100.9")})
	wantEcho(t, dialTCP(t, f.at), "")
	if rec := d.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := elsewhere.DialContext(t.Context(), "tcp", f.at.String())
	switch {
	case err == nil:
		defer c.Close()
	case !isReset(err): // the refusal may come before the dial has returned
		t.Fatal(err)
	}
	if rec := d.record(); rec.Outcome != record.OutcomeSourceRange {
		t.Errorf("from another address than it dials: record %+v", rec)
	}
}

func noEndpoint(t *trial) {
	d := t.start(splice.Options{})
	wantRefusal(t, d, d.tcp(), record.OutcomeNoEndpoint)
}

func wantRefusal(t *trial, d *dataPath, f *front, want record.Outcome) {
	t.Helper()
	wantReset(t, f.at)
	if rec := d.record(); rec.Outcome != want || rec.ClosedBy != record.Proxy || len(rec.Attempts) != 0 {
		t.Errorf("record %+v", rec)
	}
}

// nodePortAtEveryAddress: a NodePort frontend stands for every local address.
func nodePortAtEveryAddress(t *trial) {
	d := t.start(splice.Options{})
	f := d.serve(serving{kind: service.NodePort, endpoints: []netip.AddrPort{echoServer(t)}})
	f.moveFrontend(netip.AddrPortFrom(netip.IPv4Unspecified(), f.at.Port()).String())
	wantEcho(t, dialTCP(t, f.at), "")
	if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.Portal != service.NodePort || rec.OriginalDst != f.at {
		t.Errorf("record %+v", rec)
	}
}

func udpNotAPortal(t *trial) {
	d := t.start(splice.Options{})
	f := d.udp(named(t, "a"))
	f.moveFrontend("10.96.0.10:53")
	noAnswer(t, dialUDP(t, f.at))
	if rec := d.record(); rec.Outcome != record.OutcomeNotPortal {
		t.Errorf("record %+v", rec)
	}
}

// udpUnguarded: a datagram that came by no portal is dropped, as long as no rule of the host sees to that.
func udpUnguarded(t *trial) {
	d := t.start(splice.Options{
		Policy: shortUDPIdle,
		OriginalDstUDP: func(_, _ netip.AddrPort) (netip.AddrPort, error) {
			return netip.AddrPort{}, errors.New("not translated")
		},
	})
	f := d.udp(echoDatagrams(t, loopback))
	f.moveFrontend("10.96.0.10:53")
	for _, guarded := range []bool{false, true, false} {
		f.SetGuarded(guarded)
		dialUDP(t, f.at).Write([]byte("hello"))
		want := record.OutcomeNotPortal
		if guarded {
			want = record.OutcomeOK
		}
		if rec := d.record(); rec.Outcome != want {
			t.Errorf("guarded %t: %s, want %s", guarded, rec.Outcome, want)
		}
	}
}

// udpUnknown: a host without descriptors to ask by whether a portal led a datagram here is no proof that none did.
func udpUnknown(t *trial) {
	warned := make(chan error, 1)
	d := t.start(splice.Options{
		OriginalDstUDP: func(_, _ netip.AddrPort) (netip.AddrPort, error) {
			return netip.AddrPort{}, fmt.Errorf("open a socket: %w", syscall.EMFILE)
		},
		Warn: func(err error) { warned <- err },
	})
	f := d.udp(echoDatagrams(t, loopback))
	dialUDP(t, f.at).Write([]byte("hello"))
	if rec := d.record(); rec.Outcome != record.OutcomeResources {
		t.Errorf("%s, want %s", rec.Outcome, record.OutcomeResources)
	}
	if err := <-warned; !errors.Is(err, syscall.EMFILE) {
		t.Errorf("warned of %v", err)
	}
}

// loop: two fronts that have each other as endpoint do not dial each other.
func loop(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{ConnectTimeouts: []time.Duration{time.Second}}})
	a, b := d.tcp(), d.tcp()
	a.lead(b.at)
	b.lead(a.at)
	wantReset(t, a.at)
	if rec := d.record(); rec.Outcome != record.OutcomeDialFailed || len(rec.Attempts) != 1 ||
		!strings.Contains(rec.Attempts[0].Err, "itself listens") {
		t.Errorf("record %+v", rec)
	}
	a.lead(echoServer(t))
	wantEcho(t, dialTCP(t, a.at), "")
	if rec := d.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("with another endpoint: record %+v", rec)
	}
}

func udpLoop(t *trial) {
	d := t.start(splice.Options{Policy: shortUDPIdle})
	f := d.udp()
	f.lead(f.at)
	noAnswer(t, dialUDP(t, f.at))
	if rec := d.record(); rec.Outcome != record.OutcomeDialFailed || d.Stats().Sessions != 0 {
		t.Errorf("record %+v, %d sessions", rec, d.Stats().Sessions)
	}
}
