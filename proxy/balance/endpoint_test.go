package balance

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"
)

var errRefused = errors.New("connection refused")

// pickOne picks from a balancer that has endpoints.
func pickOne(t *testing.T, b *Balancer) *Endpoint {
	t.Helper()
	e := b.Pick(client, nil, byDefault).Endpoint
	if e == nil {
		t.Fatal("no endpoint is left")
	}
	return e
}

// wantKept checks how many endpoints and service ports are in memory.
func wantKept(t *testing.T, all *Endpoints, ports, endpoints int) {
	t.Helper()
	n := 0
	for _, p := range all.ports {
		n += len(p.endpoints)
	}
	if len(all.ports) != ports || n != endpoints {
		t.Errorf("%d service ports with %d endpoints are kept, want %d with %d", len(all.ports), n, ports, endpoints)
	}
}

func TestLeaseCounts(t *testing.T) {
	b := balancer(endpoints(1))
	e := pickOne(t, b)
	for range 4 {
		pickOne(t, b)
	}
	want := func(open int, failures uint64) {
		t.Helper()
		if e.open != open || e.failures != failures || e.lastFailure.IsZero() != (failures == 0) {
			t.Errorf("%d open, %d failures, the last at %v; want %d and %d", e.open, e.failures, e.lastFailure, open, failures)
		}
	}
	want(5, 0)
	e.Dialled(context.Canceled, time.Second)
	want(4, 0)
	e.Dialled(errRefused, time.Second)
	want(3, 1)
	e.Dialled(nil, time.Second)
	want(3, 1)
	e.Ended(client, nil, -1)
	want(2, 1)
	e.Ended(client, errRefused, -1)
	want(1, 2)
}

// Both scopes of a service port share the state of an endpoint, and no other service port does.
func TestBalancersOfAServicePortShareEndpoints(t *testing.T) {
	all, other := NewEndpoints(), cart
	other.Name = "basket"
	a, b, c := New(all, cart, Options{}), New(all, cart, Options{}), New(all, other, Options{})
	for _, x := range []*Balancer{a, b, c} {
		x.SetEndpoints(endpoints(1))
	}
	if pickOne(t, a) != pickOne(t, b) {
		t.Error("two balancers of a service port have each a state of the endpoint")
	}
	if pickOne(t, a) == pickOne(t, c) {
		t.Error("two service ports share the state of an endpoint")
	}
	wantKept(t, all, 2, 2)
}

// An endpoint is kept over changes of the list and a new balancer while a lease is open, and no longer.
func TestEndpointOutlivesTheList(t *testing.T) {
	all, list := NewEndpoints(), endpoints(2)
	b := New(all, cart, Options{Start: atFirst})
	b.SetEndpoints(list)
	e := pickOne(t, b)
	b.SetEndpoints(list[1:])
	b.SetEndpoints(list)
	if again := pickOne(t, b); again.Addr() != list[1] {
		t.Fatalf("picked %s, want %s", again.Addr(), list[1])
	} else {
		again.Ended(client, nil, -1)
	}
	if again := pickOne(t, b); again != e {
		t.Error("an endpoint that came back during a lease has another state")
	} else {
		again.Ended(client, nil, -1)
	}
	b.Close()
	wantKept(t, all, 1, 1)
	b = New(all, cart, Options{Start: atFirst})
	b.SetEndpoints(list)
	if again := pickOne(t, b); again != e {
		t.Error("a new balancer does not find the endpoint of a lease that is open")
	} else {
		again.Dialled(context.Canceled, 0)
	}
	b.Close()
	b.Close()
	wantKept(t, all, 1, 1)
	e.Ended(client, nil, -1)
	wantKept(t, all, 0, 0)
}

// A connection that retries after its front was closed is served from the last list, and leaves nothing behind.
func TestPickAfterClose(t *testing.T) {
	all := NewEndpoints()
	b := New(all, cart, Options{})
	b.SetEndpoints(endpoints(2))
	pickOne(t, b).Dialled(errRefused, 0)
	b.Close()
	wantKept(t, all, 0, 0)
	pickOne(t, b).Ended(client, nil, -1)
	wantKept(t, all, 0, 0)
	if n := len(b.port.endpoints); n != 0 {
		t.Errorf("the balancer keeps %d endpoints", n)
	}
}

// Whatever comes and goes, in the end nothing is kept of it.
func TestEndpointsAreBounded(t *testing.T) {
	all := NewEndpoints()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				b := New(all, cart, Options{})
				var open []*Endpoint
				for range 20 {
					b.SetEndpoints(subset(byte(rand.Uint32())))
					if e := b.Pick(client, nil, byDefault).Endpoint; e != nil {
						open = append(open, e)
					}
				}
				b.Close()
				for _, e := range open {
					e.Ended(client, []error{nil, errRefused}[rand.N(2)], time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	wantKept(t, all, 0, 0)
}

// Memory does not grow with the number of endpoints that there have been.
func TestEndpointsThatComeAndGo(t *testing.T) {
	all := NewEndpoints()
	b := New(all, cart, Options{})
	for i := range 10_000 {
		b.SetEndpoints([]netip.AddrPort{netip.AddrPortFrom(client, uint16(i))})
		pickOne(t, b).Dialled(errRefused, 0)
	}
	wantKept(t, all, 1, 1)
}
