package balance

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

func choosing(a service.Algorithm) *service.Policy {
	p := *byDefault
	p.Algorithm = a
	return &p
}

// shares picks n times, each for another client, and counts.
func shares(b *Balancer, n int, by *service.Policy, then func(Picked)) map[netip.AddrPort]int {
	counts := map[netip.AddrPort]int{}
	for i := range n {
		p := b.Pick(address(i), nil, by)
		counts[p.Endpoint.Addr()]++
		then(p)
	}
	return counts
}

// Whatever the algorithm, each endpoint has its share, a further dial is of another, and one that is ejected of none.
// No time passes while it counts: an ejection would end.
func TestAlgorithms(t *testing.T) {
	for _, algorithm := range service.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { algorithms(t, algorithm) }) })
	}
}

func algorithms(t *testing.T, algorithm service.Algorithm) {
	a, by := endpoints(10), choosing(algorithm)
	b := balancer(a)
	for at, n := range shares(b, 20_000, by, works) {
		if n < 1700 || n > 2300 {
			t.Errorf("%s: %d of 20000", at, n)
		}
	}
	for n := range len(a) {
		p := b.Pick(client, a[:n], by)
		if p.Endpoint == nil || slices.Contains(a[:n], p.Endpoint.Addr()) {
			t.Fatalf("%d tried: %+v", n, p)
		}
		p.Endpoint.Ended(client, nil, 0)
	}
	if p := b.Pick(client, a, by); p.Endpoint != nil {
		t.Errorf("all tried: %+v", p)
	}
	fail(t, b, a[3], Refused, 3)
	got := shares(b, 20_000, by, works)
	if len(got) != 9 || got[a[3]] > 0 {
		t.Errorf("one is ejected: %v", got)
	}
	for at, n := range got {
		if n < 1850 || n > 2600 {
			t.Errorf("%s: %d of 20000, one is ejected", at, n)
		}
	}
}

// Connections that stay open go where the fewest are.
func TestLeastConnections(t *testing.T) {
	a := endpoints(4)
	b := balancer(a)
	for range 1000 {
		p := b.Pick(client, a[1:], byDefault) // the first has a thousand already
		p.Endpoint.Dialled(nil, 0)
	}
	open := shares(b, 3000, choosing(service.LeastConnections), func(p Picked) { p.Endpoint.Dialled(nil, 0) })
	for _, at := range a[1:] {
		if open[at] < 950 {
			t.Errorf("%s has %d of 3000, the first with a thousand before %d", at, open[at], open[a[0]])
		}
	}
	if one := balancer(a[:1]); one.Pick(client, nil, choosing(service.LeastConnections)).Endpoint == nil {
		t.Error("the only endpoint is not picked")
	}
}

// A client has the same endpoint on every node, in whatever order they learned of the endpoints.
func TestSourceHashIsTheSameEverywhere(t *testing.T) {
	a, by := endpoints(7), choosing(service.SourceHash)
	one, other := balancer(a), newBalancer(Options{})
	for n := range len(a) {
		other.SetEndpoints(slices.Concat(a[len(a)-1-n:], []netip.AddrPort{netip.MustParseAddrPort("10.7.7.7:80")}))
		other.Pick(client, nil, by)
	}
	other.SetEndpoints(a)
	for i := range 1000 {
		if x, y := one.Pick(address(i), nil, by), other.Pick(address(i), nil, by); x.Endpoint.Addr() != y.Endpoint.Addr() {
			t.Fatalf("client %d: %s and %s", i, x.Endpoint.Addr(), y.Endpoint.Addr())
		}
	}
}

// Connections that began before the algorithm was changed may still pick by it: the table is not made again for each.
func TestTableIsMadeOnce(t *testing.T) {
	a := endpoints(3)
	b := balancer(a)
	b.Pick(client, nil, choosing(service.SourceHash))
	made := &b.rotation.table[0]
	b.Pick(client, nil, byDefault)
	b.Pick(client, nil, choosing(service.SourceHash))
	if &b.rotation.table[0] != made {
		t.Error("it is made anew")
	}
	b.SetEndpoints(a[:2])
	if len(b.rotation.table) == 0 {
		t.Error("the next pick has to make it")
	}
	b.Pick(client, nil, byDefault)
	b.SetEndpoints(a)
	if b.rotation.table != nil {
		t.Error("it is kept though nobody uses it")
	}
}

// The paper's figures, section 5.3: the table is even to within 1 % or so, and when an endpoint goes hardly any client
// of another moves.
func TestMaglev(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 20, 21, 100, 163, 500, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a := endpoints(n)
			before := newTable(a)
			counts := make([]int, n)
			for _, i := range before {
				counts[i]++
			}
			if most := float64(slices.Max(counts)) * float64(n) / float64(len(before)); most > 1.03 {
				t.Errorf("the endpoint with the most has %.3f times its share", most)
			}
			if n == 1 || n == 21 { // one less has a table of another size
				return
			}
			gone := n / 2
			after, moved := newTable(slices.Delete(slices.Clone(a), gone, gone+1)), 0
			for i, was := range before {
				now := after[i]
				if int(now) >= gone {
					now++
				}
				if int(was) != gone && was != now {
					moved++
				}
			}
			share := float64(moved) / float64(len(before))
			t.Logf("%d places, %.2f %% of the clients of others move", len(before), 100*share)
			if share > 0.03 {
				t.Errorf("%.3f of the clients of others move", share)
			}
		})
	}
}

// A new endpoint begins with a tenth of what the others get, and has all of it at the end.
func TestSlowStart(t *testing.T) {
	for _, algorithm := range []service.Algorithm{service.RoundRobin, service.Random, service.LeastConnections} {
		t.Run(algorithm.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testSlowStart(t, algorithm) }) })
	}
}

func testSlowStart(t *testing.T, algorithm service.Algorithm) {
	a, by := endpoints(4), choosing(algorithm)
	by.SlowStart = 10 * time.Second
	b := newBalancer(Options{})
	b.SetEndpoints(a[:3])
	then := works
	if algorithm == service.LeastConnections { // by open connections
		then = func(p Picked) { p.Endpoint.Dialled(nil, 0) }
	}
	b.Pick(client, nil, by)
	if n := shares(b, 4000, by, works)[a[0]]; n < 1200 && algorithm != service.LeastConnections {
		t.Errorf("one of the first three has %d of 4000", n)
	}
	b.SetEndpoints(a)
	last := 0
	for _, c := range []struct {
		after time.Duration
		share float64 // of what the others have
	}{{0, 0.1}, {5 * time.Second, 0.5}, {5 * time.Second, 1}} {
		time.Sleep(c.after)
		n := shares(b, 8000, by, then)[a[3]]
		mean := float64(8000-n) / 3
		if algorithm == service.LeastConnections {
			if n < last {
				t.Errorf("fewer after %s: %d, before %d", c.after, n, last)
			}
			last = n
			continue
		}
		if got := float64(n) / mean; math.Abs(got-c.share) > 0.15 {
			t.Errorf("%s more: %.2f of the others' share, want %.1f", c.after, got, c.share)
		}
	}
	if len(b.rotation.slowStart.young) != 0 {
		t.Error("it is new for ever")
	}
}

func BenchmarkPickBySource(b *testing.B) {
	r, by := balancer(endpoints(1000)), choosing(service.SourceHash)
	for b.Loop() {
		r.Pick(client, nil, by)
	}
}

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{20, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := endpoints(n)
			for b.Loop() {
				newTable(a)
			}
		})
	}
}
