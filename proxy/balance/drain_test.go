package balance

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

// pod is an endpoint of a pod.
func pod(at netip.AddrPort, name string) service.Endpoint {
	return service.Endpoint{Addr: at, Pod: name}
}

// used returns which endpoints a balancer gives leases of, each of which ends at once.
func used(b *Balancer) (out []netip.AddrPort) {
	for range 20 {
		if e := b.Pick(client, nil, byDefault).Endpoint; e != nil {
			out = append(out, e.Addr())
			e.Dialled(nil, 0)
			e.Ended(client, nil, -1)
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

func wantUsed(t *testing.T, b *Balancer, want ...netip.AddrPort) {
	t.Helper()
	if got := used(b); !slices.Equal(got, want) {
		t.Errorf("used are %v, want %v", got, want)
	}
}

// A drained endpoint gets no new leases and keeps its open one, leaves the list and comes back, and is used again when
// the drain ends.
func TestDrain(t *testing.T) {
	all, list := NewEndpoints(), endpoints(3)
	b, other := New(all, cart, Options{Start: atFirst}), New(all, cart, Options{Start: atFirst})
	b.SetEndpoints(list)
	other.SetEndpoints(list[1:])
	e := pickOne(t, b)
	if err := all.Drain(cart, pod(list[0], "a"), false); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, b, list[1:]...)
	isOpen := func(s Statistics) bool { return s.Address == e.Addr() && s.Open == 1 }
	if s := all.Statistics(cart); !slices.ContainsFunc(s, isOpen) {
		t.Errorf("the open lease is gone: %+v", s)
	}
	b.SetEndpoints(list[1:])
	wantUsed(t, b, list[1:]...)
	b.SetEndpoints(list)
	wantUsed(t, b, list[1:]...)
	later := New(all, cart, Options{Start: atFirst})
	later.SetEndpoints(list)
	wantUsed(t, later, list[1:]...)
	if got := all.Drained(cart); !slices.Equal(got, list[:1]) || all.Drains() != 1 {
		t.Errorf("drained are %v, %d", got, all.Drains())
	}
	if !all.Undrain(cart, list[0]) || all.Undrain(cart, list[0]) {
		t.Error("the drain did not end once")
	}
	wantUsed(t, b, list...)
	wantUsed(t, later, list...)
	wantUsed(t, other, list[1:]...)
	if got := all.Drained(cart); len(got) != 0 || all.Drains() != 0 {
		t.Errorf("drained are %v, %d", got, all.Drains())
	}
	e.Dialled(errRefused, 0)
	for _, b := range []*Balancer{b, other, later} {
		b.Close()
	}
	wantKept(t, all, 0, 0)
}

// The last endpoint of any list is not drained, unless it is forced; and one that becomes the last is used again.
func TestDrainOfTheLast(t *testing.T) {
	all, list := NewEndpoints(), endpoints(2)
	cluster, node := New(all, cart, Options{}), New(all, cart, Options{})
	cluster.SetEndpoints(list)
	node.SetEndpoints(list[:1])
	if err := all.Drain(cart, pod(list[0], "a"), false); !errors.Is(err, ErrLast) {
		t.Errorf("the last of the node: %v", err)
	}
	node.SetEndpoints(nil)
	if err := all.Drain(cart, pod(list[0], "a"), false); err != nil {
		t.Error(err)
	}
	if err := all.Drain(cart, pod(list[1], "b"), false); !errors.Is(err, ErrLast) {
		t.Errorf("the last that is not drained: %v", err)
	}
	node.SetEndpoints(list[:1])
	wantUsed(t, node, list[0])
	wantUsed(t, cluster, list[1])
	if got := all.Drained(cart); got != nil {
		t.Errorf("shown as drained, and used by clients of the node: %v", got)
	}
	cluster.SetEndpoints(list[:1])
	wantUsed(t, cluster, list[0])
	if err := all.Drain(cart, pod(list[0], "a"), true); err != nil {
		t.Error(err)
	}
	wantUsed(t, node)
	wantUsed(t, cluster)
	if got := all.Drained(cart); !slices.Equal(got, list[:1]) || all.Drains() != 1 {
		t.Errorf("drained are %v, %d", got, all.Drains())
	}
	all.UndrainAll(cart)
	wantUsed(t, node, list[0])
}

// A client that is bound to an endpoint goes to another when that is drained.
func TestDrainEndsAffinity(t *testing.T) {
	all, list := NewEndpoints(), endpoints(3)
	b := New(all, cart, Options{Start: atFirst})
	b.SetEndpoints(list)
	b.SetAffinity(time.Hour)
	bound := pickOne(t, b)
	if err := all.Drain(cart, pod(bound.Addr(), "a"), false); err != nil {
		t.Fatal(err)
	}
	if again := pickOne(t, b); again == bound {
		t.Error("a bound client is led to the drained endpoint")
	}
}

// The drain of a pod ends when another pod has its address, or when it has been gone for long.
func TestDrainIsOfAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, list := NewEndpoints(), endpoints(2)
		b := New(all, cart, Options{})
		b.SetEndpoints(list)
		first, both := []service.Endpoint{pod(list[0], "a")}, []service.Endpoint{pod(list[0], "a"), pod(list[1], "b")}
		drain := func() {
			t.Helper()
			if err := all.Drain(cart, pod(list[1], "b"), false); err != nil {
				t.Fatal(err)
			}
		}
		drain()
		for range 3 {
			if ended := all.Renew(cart, first); ended != nil {
				t.Errorf("ended: %v", ended)
			}
			time.Sleep(forgetAfter - time.Second)
			if ended := all.Renew(cart, both); ended != nil {
				t.Errorf("ended: %v", ended)
			}
		}
		wantUsed(t, b, list[0])
		both[1].Pod = "c"
		if ended := all.Renew(cart, both); !slices.Equal(ended, list[1:]) {
			t.Errorf("another pod: %v", ended)
		}
		wantUsed(t, b, list...)
		drain()
		all.Renew(cart, first)
		time.Sleep(forgetAfter + time.Second)
		if ended := all.Renew(cart, first); !slices.Equal(ended, list[1:]) {
			t.Errorf("gone for long: %v", ended)
		}
	})
}

// Endpoints are drained while connections come and go, and lists change.
func TestDrainAtOnce(t *testing.T) {
	all, list := NewEndpoints(), endpoints(5)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 300 {
				b := New(all, cart, Options{})
				b.SetEndpoints(list[rand.N(3):])
				used(b)
				b.Close()
			}
		})
	}
	wg.Go(func() {
		for range 3000 {
			if at := rand.N(len(list)); rand.N(2) == 0 {
				_ = all.Drain(cart, pod(list[at], "a"), rand.N(2) == 0)
			} else {
				all.Undrain(cart, list[at])
			}
			all.Statistics(cart, 0.5)
		}
	})
	wg.Wait()
	all.UndrainAll(cart)
	wantKept(t, all, 0, 0)
	if all.Drains() != 0 {
		t.Errorf("%d drains", all.Drains())
	}
}
