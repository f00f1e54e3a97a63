package balance

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}) }

// bound returns a balancer with affinity.
func bound(timeout time.Duration, addrs []netip.AddrPort) *Balancer {
	b := balancer(addrs)
	b.SetAffinity(timeout)
	return b
}

func pick(t *testing.T, b *Balancer, c netip.Addr, tried []netip.AddrPort, want netip.AddrPort, affinity string) {
	t.Helper()
	e, word, ok := pickAddr(b, c, tried)
	if !ok || e != want || word != affinity {
		t.Fatalf("picked %v %q %v, want %v %q", e, word, ok, want, affinity)
	}
}

// bindingsOf is how many clients are bound.
func bindingsOf(b *Balancer) int {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.bindings.expire(b.bindings.now(), len(b.bindings.byClient))
	return b.bindings.live()
}

func wantBindings(t *testing.T, b *Balancer, n int) {
	t.Helper()
	if got := bindingsOf(b); got != n {
		t.Fatalf("%d bindings, want %d", got, n)
	}
}

func TestAffinityBindsByAddress(t *testing.T) {
	a := endpoints(3)
	b := bound(time.Hour, a)
	pick(t, b, address(1), nil, a[0], Fresh)
	pick(t, b, address(2), nil, a[1], Fresh)
	pick(t, b, address(1), nil, a[0], Hit)
	pick(t, b, netip.AddrFrom16(address(2).As16()), nil, a[1], Hit) // IPv4-mapped
	wantBindings(t, b, 2)
}

func TestAffinityMovesWhenItsEndpointFailed(t *testing.T) {
	a := endpoints(3)
	b := bound(time.Hour, a)
	pick(t, b, address(1), nil, a[0], Fresh)
	pick(t, b, address(1), a[:1], a[0], Hit) // its own gets a second chance
	pick(t, b, address(1), twice(a[:1]), a[1], Moved)
	pick(t, b, address(1), nil, a[1], Hit)
	pick(t, b, address(1), twice(a[:1]), a[1], Hit) // another connection of the client had failed at the old one
	if _, _, ok := pickAddr(b, address(1), twice(a)); ok {
		t.Fatal("picked one although all were tried")
	}
	pick(t, b, address(1), nil, a[1], Hit) // nothing took its place
	wantBindings(t, b, 1)
}

// twice returns the value of tried after each was dialled twice.
func twice(a []netip.AddrPort) []netip.AddrPort { return slices.Concat(a, a) }

func TestAffinityIsForgottenWithItsEndpoint(t *testing.T) {
	a := endpoints(3)
	b := bound(time.Hour, a)
	for i := range 9 {
		pick(t, b, address(i), nil, a[i%3], Fresh)
	}
	b.SetEndpoints(a[1:])
	wantBindings(t, b, 6)
	pick(t, b, address(4), nil, a[1], Hit)
	b.SetEndpoints(a) // the same address again, yet those who were bound to it are not
	wantBindings(t, b, 6)
	pick(t, b, address(0), nil, a[1], Fresh)
	wantBindings(t, b, 7)
	b.SetEndpoints(nil)
	wantBindings(t, b, 0)
	if n := len(b.bindings.byClient); n != 0 {
		t.Fatalf("%d bindings kept in memory", n)
	}
}

func TestAffinitySlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := endpoints(2)
		b := bound(10*time.Second, a)
		pick(t, b, address(1), nil, a[0], Fresh)
		for range 5 {
			time.Sleep(9 * time.Second)
			pick(t, b, address(1), nil, a[0], Hit)
		}
		time.Sleep(10 * time.Second)
		wantBindings(t, b, 0)
		pick(t, b, address(1), nil, a[1], Fresh)
	})
}

func TestAffinityFollowsItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := endpoints(2)
		b := bound(3*time.Hour, a)
		pick(t, b, address(1), nil, a[0], Fresh)
		time.Sleep(20 * time.Second)
		b.SetAffinity(10 * time.Second) // shorter: over at once
		pick(t, b, address(1), nil, a[1], Fresh)
		time.Sleep(5 * time.Second)
		b.SetAffinity(time.Minute) // longer: lives on
		time.Sleep(30 * time.Second)
		pick(t, b, address(1), nil, a[1], Hit)
		b.SetAffinity(0)
		pick(t, b, address(1), nil, a[0], "")
		wantBindings(t, b, 0)
		b.SetAffinity(time.Minute)
		pick(t, b, address(1), nil, a[1], Fresh)
	})
}

func TestExpiredBindingsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(time.Minute, endpoints(3))
		for i := range 1000 {
			b.Pick(address(i), nil, byDefault)
		}
		time.Sleep(time.Minute)
		for i := range 600 {
			b.Pick(address(2000+i), nil, byDefault) // each removes up to two
		}
		if n := len(b.bindings.byClient); n != 600 {
			t.Fatalf("%d bindings in memory, want 600", n)
		}
	})
}

func TestBindingsAreBounded(t *testing.T) {
	a := endpoints(2)
	b := newBalancer(Options{Start: atFirst, MaxBindings: 3})
	b.SetEndpoints(a)
	b.SetAffinity(time.Hour)
	for i := range 3 {
		pick(t, b, address(i), nil, a[i%2], Fresh)
	}
	pick(t, b, address(0), nil, a[0], Hit)
	pick(t, b, address(3), nil, a[1], Fresh) // in place of 1, the least recently used
	wantBindings(t, b, 3)
	pick(t, b, address(0), nil, a[0], Hit)
	pick(t, b, address(1), nil, a[0], Fresh)
}

func TestAffinityUnderConcurrency(t *testing.T) {
	a := endpoints(4)
	b := newBalancer(Options{MaxBindings: 50})
	b.SetEndpoints(a)
	b.SetAffinity(time.Hour)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				b.Pick(address(i%100), a[:w%3], byDefault)
			}
		})
	}
	wg.Go(func() {
		for i := range 1000 {
			b.SetEndpoints(a[i%3:])
			b.SetAffinity(time.Duration(i%5) * time.Hour)
			bindingsOf(b)
		}
	})
	wg.Wait()
	check(t, b)
}

// check tells whether what the balancer keeps about bindings agrees with itself.
func check(t *testing.T, b *Balancer) {
	t.Helper()
	bound := map[*member]int{}
	stale := 0
	for el := b.bindings.order.Front(); el != nil; el = el.Next() {
		at := el.Value.(*binding)
		bound[at.to]++
		if at.to.is(gone) {
			stale++
		}
		if b.bindings.byClient[at.client] != el {
			t.Fatalf("%v is in the list and not in the map", at.client)
		}
	}
	for e, n := range bound {
		if int(e.bound) != n {
			t.Fatalf("%v counts %d bindings, has %d", e.addr, e.bound, n)
		}
	}
	if n := len(b.bindings.byClient); n != b.bindings.order.Len() || n > b.bindings.max || stale != b.bindings.stale {
		t.Fatalf("%d in the map, %d in the list, %d at most; %d stale, counted %d",
			n, b.bindings.order.Len(), b.bindings.max, stale, b.bindings.stale)
	}
}

func BenchmarkPickBound(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newBalancer(Options{})
			r.SetEndpoints(endpoints(10))
			r.SetAffinity(time.Hour)
			clients := make([]netip.Addr, n)
			for i := range clients {
				clients[i] = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Pick(clients[i%n], nil, byDefault)
			}
		})
	}
}

// Who is bound where is counted, without those whose time is up or whose endpoint is gone.
func TestBindingsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := endpoints(3)
		b := bound(time.Minute, all)
		counted := func() map[netip.AddrPort]int {
			to := map[netip.AddrPort]int{}
			b.AddBound(to)
			return to
		}
		if n := counted(); len(n) > 0 {
			t.Errorf("before any: %v", n)
		}
		for i := range 7 {
			if i == 6 {
				time.Sleep(40 * time.Second)
			}
			pickAddr(b, address(i), nil)
		}
		total := 0
		for _, n := range counted() {
			total += n
		}
		if first := counted(); total != 7 || len(first) != 3 {
			t.Errorf("%v: want 7 clients of 3 endpoints", first)
		}
		time.Sleep(30 * time.Second)
		last, _ := b.Bound(address(6))
		if n := counted(); len(n) != 1 || n[last] != 1 {
			t.Errorf("one is not too old: %v", n)
		}
		b.SetEndpoints(slices.DeleteFunc(slices.Clone(all), func(at netip.AddrPort) bool { return at == last }))
		if n := counted(); len(n) > 0 {
			t.Errorf("their endpoint is gone: %v", n)
		}
	})
}
