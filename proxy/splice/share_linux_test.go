package splice

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// openAs is open for another Service.
func (r *rig) openAs(t testing.TB, name string, protocol service.Protocol, endpoint netip.AddrPort) netip.AddrPort {
	t.Helper()
	for {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(21000+nextPort.Add(1)%8000))
		list := []netip.AddrPort{endpoint}
		_, err := r.Open(service.PortName{Namespace: "shop", Name: name, Protocol: protocol}, Pickers{&ring{list: list}}, viewOf(at, protocol, list), at)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
}

// try has a client at an address ask by TCP. The connection stays open where there was an answer.
func try(t testing.TB, from string, to netip.AddrPort) bool {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", to.String())
	if errors.Is(err, syscall.ECONNRESET) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(5 * time.Second))
	c.Write([]byte("x"))
	_, err = io.ReadFull(c, make([]byte, 1))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("a client waits")
	}
	return err == nil
}

// One client takes all the connections it can get: it is the one that is refused, and nobody waits.
func TestGreedyClient(t *testing.T) {
	var troubles atomic.Int64
	r := newRig(t, Options{Account: NewAccount(Budget{Descriptors: 600}), Trouble: func(err error) {
		if errors.Is(err, ErrDescriptors) {
			troubles.Add(1)
		}
	}})
	pod := serveTCP(t, "127.0.0.1", echo)
	a, b := r.openAs(t, "a", service.TCP, pod), r.openAs(t, "b", service.TCP, pod)
	served, refused := 0, 0
	for refused < 100 {
		if try(t, "127.0.0.2", a) {
			served++
		} else {
			refused++
		}
	}
	if served < 200 {
		t.Errorf("%d connections were served before one was refused", served)
	}
	if rec := r.record(t); rec.Outcome != OutcomeResources || rec.Client.Addr().String() != "127.0.0.2" {
		t.Errorf("record %+v", rec)
	}
	if troubles.Load() != int64(refused) {
		t.Errorf("%d refused, %d told", refused, troubles.Load())
	}
	for i := range 10 {
		if !try(t, "127.0.0.3", a) || !try(t, "127.0.0.3", b) || !try(t, "127.0.0.2", b) {
			t.Fatalf("another was refused, at its connection %d", i)
		}
	}
}

// One UDP client opens sessions without end: those that end are its own.
func TestGreedyUDPClient(t *testing.T) {
	r := newRig(t, Options{UDPSessions: 200, Account: NewAccount(Budget{Sessions: 300})})
	pod := named(t, "pod")
	a, b := r.openAs(t, "a", service.UDP, pod), r.openAs(t, "b", service.UDP, pod)
	dial := func(from string, to netip.AddrPort) *net.UDPConn {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(to))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var patient []*net.UDPConn
	for range 3 {
		patient = append(patient, dial("127.0.0.3", a), dial("127.0.0.3", b))
	}
	for _, c := range patient {
		ask(t, c, "before")
	}
	for range 1000 {
		ask(t, dial("127.0.0.2", a), "x")
	}
	for range 700 {
		rec := r.record(t)
		if rec.Outcome != OutcomeLimit || rec.Client.Addr().String() != "127.0.0.2" {
			t.Fatalf("record %+v", rec)
		}
	}
	for _, c := range patient {
		ask(t, c, "after")
	}
	if n := r.Stats().Sessions; n > 300 {
		t.Errorf("%d sessions", n)
	}
}

// All service ports together hold no more sessions than the account has, and each still serves.
func TestSessionsOfAll(t *testing.T) {
	var troubles atomic.Int64
	r := newRig(t, Options{Account: NewAccount(Budget{Sessions: 300}), Trouble: func(err error) {
		if errors.Is(err, ErrSessions) {
			troubles.Add(1)
		}
	}})
	pod := named(t, "pod")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		at := r.openAs(t, name, service.UDP, pod)
		for range 300 {
			c := dialUDP(t, at)
			ask(t, c, "x")
			c.Close()
		}
		if n := r.Stats().Sessions; n > 300 {
			t.Fatalf("%d sessions", n)
		}
	}
	if troubles.Load() == 0 {
		t.Error("nobody was told")
	}
}

// A listener for which there is no descriptor is an error that says so, and all is given back in the end.
func TestListenerWithoutDescriptor(t *testing.T) {
	account := NewAccount(Budget{Descriptors: 2*loopDescriptors + 1})
	r := newRigOf(t, 2, Options{Account: account})
	for _, protocol := range []service.Protocol{service.TCP, service.UDP} {
		f, _ := r.open(t, protocol, "127.0.0.1")
		if err := f.Listen(netip.MustParseAddrPort("127.0.0.1:0")); !errors.Is(err, unix.EMFILE) {
			t.Errorf("got %v", err)
		}
		f.Close()
		for deadline := time.Now().Add(5 * time.Second); r.Stats().Descriptors != 2*loopDescriptors; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("stats %+v", r.Stats())
			}
		}
	}
	r.stop()
	if n := r.Stats().Descriptors; n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}
