package balance

import (
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

// on is the default policy, but for the failures that eject an endpoint.
func on(failures service.EjectOn) *service.Policy {
	p := *byDefault
	p.EjectOn = failures
	return &p
}

// takes picks an endpoint by a policy, and has the dial of it work.
func takes(t *testing.T, b *Balancer, at netip.AddrPort, policy *service.Policy) Picked {
	t.Helper()
	for range 100 {
		p := b.Pick(client, nil, policy)
		if p.Endpoint.Dialled(nil, 0); p.Endpoint.Addr() == at {
			return p
		}
		p.Endpoint.Answered()
		p.Endpoint.Ended(client, nil, 0)
	}
	t.Fatalf("%s is not picked", at)
	return Picked{}
}

// crashes has an endpoint close connections that it has answered, which is known once all have ended, and returns after
// how many it was ejected; 0: it was not.
func crashes(t *testing.T, b *Balancer, at netip.AddrPort, n int, policy *service.Policy) (ejected int) {
	t.Helper()
	var all []*Endpoint
	for range n {
		e := takes(t, b, at, policy).Endpoint
		e.Answered()
		all = append(all, e)
	}
	for i, e := range all {
		e.Ended(client, nil, 0)
		if e.ClosedEarly() && ejected == 0 {
			ejected = i + 1
		}
	}
	return ejected
}

// By default connections that an endpoint closes early eject nobody. They do if that is asked for.
func TestEjectionOnClosedEarly(t *testing.T) {
	a := endpoints(4)
	b := balancer(a)
	if n := crashes(t, b, a[0], 10, byDefault); n != 0 {
		t.Errorf("by default it is ejected after %d", n)
	}
	if n := crashes(t, b, a[1], 10, on(service.EjectClosedEarly)); n != 3 {
		t.Errorf("ejected after %d", n)
	}
	e := b.port.all.Ejected(b.port.name)[a[1]]
	if !e.LeftOut || e.For != ClosedEarly || e.For.String() != "closed_early" {
		t.Errorf("shown as %+v", e)
	}
}

// An answer in between ends the row.
func TestClosedEarlyInARow(t *testing.T) {
	a, early := endpoints(2), on(service.EjectClosedEarly)
	b := balancer(a)
	for range 5 {
		if n := crashes(t, b, a[0], 2, early); n != 0 {
			t.Fatalf("ejected after %d", n)
		}
	}
}

// Failures that do not count eject nobody.
func TestEjectionOnSomeFailures(t *testing.T) {
	for _, kind := range []Failure{Refused, TimedOut, Silent, ClosedEarly} {
		for _, counts := range []service.EjectOn{service.EjectConnect, service.EjectReset, service.EjectClosedEarly} {
			a, policy := endpoints(2), on(counts)
			b := balancer(a)
			for range 20 {
				p := b.Pick(client, a[1:], policy)
				switch kind {
				case Refused:
					p.Endpoint.Dialled(syscall.ECONNREFUSED, 0)
				case TimedOut:
					p.Endpoint.Dialled(os.ErrDeadlineExceeded, 0)
				case Silent:
					p.Endpoint.Dialled(nil, 0)
					p.Endpoint.Ended(client, syscall.ECONNRESET, -1)
				case ClosedEarly:
					p.Endpoint.Dialled(nil, 0)
					p.Endpoint.Ended(client, nil, 0)
					p.Endpoint.ClosedEarly()
				}
			}
			if _, is := b.port.all.Ejected(b.port.name)[a[0]]; is != (kind.event() == counts) {
				t.Errorf("%s, where %s counts: ejected: %t", kind, counts, is)
			}
		}
	}
}

// Whatever happens to the connection that tries an ejected endpoint again, it is left out for longer; an answer, or an
// end without one, readmits it.
func TestEndOfEjectionOnClosedEarly(t *testing.T) {
	for name, ends := range map[string]func(Picked){
		"an answer":   func(p Picked) { p.Endpoint.Dialled(nil, 0); p.Endpoint.Answered() },
		"without one": func(p Picked) { p.Endpoint.Dialled(nil, 0); p.Endpoint.Ended(client, nil, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, early := endpoints(2), on(service.EjectClosedEarly)
				b := balancer(a)
				crashes(t, b, a[0], 3, early)
				isOut := func() bool { return len(b.rotation.leftOut) == 1 }
				old := b.port.ejected[a[0]]
				old.triedWell() // of a connection that ended with the same crash
				if !isOut() {
					t.Fatal("it is not left out")
				}
				time.Sleep(firstBan)
				if p := b.Pick(client, nil, early); !p.Probe || !p.Endpoint.Dialled(syscall.ECONNREFUSED, 0) || !isOut() {
					t.Fatalf("a refused dial of the one that tries it: %+v", p)
				}
				time.Sleep(2 * firstBan)
				p := b.Pick(client, nil, early)
				if ends(p); !p.Probe || isOut() {
					t.Errorf("still left out: %t", isOut())
				}
			})
		})
	}
}

// What becomes known of an endpoint that is gone ejects nobody, and keeps nothing.
func TestClosedEarlyOfOneThatIsGone(t *testing.T) {
	a, early := endpoints(2), on(service.EjectClosedEarly)
	all := NewEndpoints()
	b := New(all, cart, Options{})
	b.SetEndpoints(a)
	gone := takes(t, b, a[0], early).Endpoint
	b.SetEndpoints(a[1:])
	gone.Ended(client, nil, 0)
	for range 5 {
		if gone.ClosedEarly() {
			t.Error("ejected")
		}
	}
	if n := all.ejecting.n.Load(); n != 0 || b.port.endpoints[a[0]] != nil {
		t.Errorf("%d are ejected, known: %v", n, b.port.endpoints[a[0]])
	}
}
