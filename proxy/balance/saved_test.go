package balance

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

// A successor leaves out what its predecessor left out, for as long.
func TestRestoreEjected(t *testing.T) { synctest.Test(t, testRestoreEjected) }

func testRestoreEjected(t *testing.T) {
	a := endpoints(4)
	old, next := balancer(a), balancer(a[:3])
	fail(t, old, a[0], Refused, 3)
	fail(t, old, a[3], TimedOut, 3)
	next.Restore(old.Save(0))
	next.Restore(old.Save(0))
	if len(next.rotation.leftOut) != 1 || next.rotation.leftOut[0].addrPort() != a[0] {
		t.Fatalf("left out: %v", addresses(next.rotation.leftOut))
	}
	time.Sleep(firstBan)
	if p := next.Pick(client, nil, byDefault); !p.Probe || p.Endpoint.Addr() != a[0] {
		t.Errorf("after its time: %+v", p)
	}
}

// A successor goes on with the turn and with the clients that are bound, but for those that it has bound itself since,
// and for endpoints that are gone.
func TestRestore(t *testing.T) { synctest.Test(t, testRestore) }

func testRestore(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	a, b, c := at("10.1.0.1:80"), at("10.1.0.2:80"), at("10.1.0.3:80")
	balancer := func(endpoints ...netip.AddrPort) *Balancer {
		b := New(NewEndpoints(), service.PortName{Name: "cart"}, Options{Start: func(int) int { return 0 }})
		b.SetAffinity(time.Hour)
		b.SetEndpoints(endpoints)
		return b
	}
	client := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	old := balancer(a, b, c)
	for i := range byte(4) {
		old.Pick(client(i), nil, byDefault) // a, b, c, a
	}
	time.Sleep(time.Second)
	next := balancer(a, b)
	next.Pick(client(1), nil, byDefault) // later than with the old one: a
	saved := old.Save(0)
	saved.Bindings[1].Unused += time.Minute
	next.Restore(saved)
	for i, want := range []netip.AddrPort{a, a, {}, a} {
		bound, is := next.Bound(client(byte(i)))
		if bound != want || is != want.IsValid() {
			t.Errorf("client %d is bound to %s, want %s", i, bound, want)
		}
	}
	if e := next.Pick(client(9), nil, byDefault).Endpoint; e.Addr() != b {
		t.Errorf("the next one went to %s, want %s", e.Addr(), b)
	}
	for within, want := range map[time.Duration]int{999 * time.Millisecond: 0, time.Second: 4} {
		if n := len(old.Save(within).Bindings); n != want {
			t.Errorf("%d bindings were used within %s, want %d", n, within, want)
		}
	}
	if e := next.Join(c); e.Addr() != c {
		t.Errorf("joined %s", e.Addr())
	}
}
