package balance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

var client = netip.MustParseAddr("192.0.2.1")

func endpoints(n int) []netip.AddrPort {
	out := make([]netip.AddrPort, n)
	for i := range out {
		out[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 8080)
	}
	return out
}

// atFirst begins the turn at the first endpoint.
func atFirst(int) int { return 0 }

var cart = service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}

// byDefault is the policy of a Service without annotations.
var byDefault = func() *service.Policy {
	p := service.DefaultPolicy()
	return &p
}()

func newBalancer(o Options) *Balancer { return New(NewEndpoints(), cart, o) }

// pickAddr picks as a connection does that ends at once.
func pickAddr(b *Balancer, client netip.Addr, tried []netip.AddrPort) (addr netip.AddrPort, affinity string, ok bool) {
	p := b.Pick(client, tried, byDefault)
	if p.Endpoint == nil {
		return netip.AddrPort{}, p.Affinity, false
	}
	p.Endpoint.Ended(client, nil, -1)
	return p.Endpoint.Addr(), p.Affinity, true
}

func balancer(addrs []netip.AddrPort) *Balancer {
	b := newBalancer(Options{Start: atFirst})
	b.SetEndpoints(addrs)
	return b
}

// connect picks as a connection does that retries past the dead, and returns where it ended.
func connect(b *Balancer, client netip.Addr, dead []netip.AddrPort) (netip.AddrPort, bool) {
	var tried []netip.AddrPort
	for {
		e, _, ok := pickAddr(b, client, tried)
		if !ok || !slices.Contains(dead, e) {
			return e, ok
		}
		tried = append(tried, e)
	}
}

func picks(b *Balancer, n int) []netip.AddrPort {
	var out []netip.AddrPort
	for range n {
		e, _, _ := pickAddr(b, client, nil)
		out = append(out, e)
	}
	return out
}

func expect(t *testing.T, got []netip.AddrPort, want ...netip.AddrPort) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("picked %v, want %v", got, want)
	}
}

func TestPickWithoutEndpoints(t *testing.T) {
	b := newBalancer(Options{})
	if p := b.Pick(client, nil, byDefault); p != (Picked{}) {
		t.Errorf("got %+v", p)
	}
}

func TestPickTakesTurns(t *testing.T) {
	a := endpoints(3)
	b := balancer([]netip.AddrPort{a[2], a[0], a[1], a[0]}) // neither sorted nor unique
	expect(t, picks(b, 7), a[0], a[1], a[2], a[0], a[1], a[2], a[0])
}

func TestPickStartsAnywhere(t *testing.T) {
	first := map[netip.AddrPort]bool{}
	for range 200 {
		b := newBalancer(Options{})
		b.SetEndpoints(endpoints(4))
		first[picks(b, 1)[0]] = true
	}
	if len(first) != 4 {
		t.Fatalf("200 balancers began with %d of 4 endpoints", len(first))
	}
}

func TestPickLeavesOutTried(t *testing.T) {
	a := endpoints(4)
	b := balancer(a)
	e, _, _ := pickAddr(b, client, []netip.AddrPort{a[0], a[1]})
	expect(t, append([]netip.AddrPort{e}, picks(b, 2)...), a[2], a[3], a[0])
	if _, _, ok := pickAddr(b, client, a); ok {
		t.Fatal("picked one although all were tried")
	}
	expect(t, picks(b, 1), a[1]) // that took nobody's turn
}

func TestEveryLiveEndpointGetsTheSame(t *testing.T) {
	const each, workers = 300, 8
	for _, tc := range []struct{ all, dead int }{{1, 0}, {3, 0}, {7, 0}, {3, 1}, {5, 2}, {16, 3}} {
		t.Run(fmt.Sprintf("%d with %d dead", tc.all, tc.dead), func(t *testing.T) {
			a := endpoints(tc.all)
			b := newBalancer(Options{})
			b.SetEndpoints(a)
			var dead []netip.AddrPort
			for _, i := range rand.Perm(tc.all)[:tc.dead] {
				dead = append(dead, a[i])
			}
			live := tc.all - tc.dead
			got := connectAll(b, dead, workers, each*live)
			for _, e := range a {
				want := each
				if slices.Contains(dead, e) {
					want = 0
				}
				if got[e] != want {
					t.Errorf("%v got %d connections, want %d", e, got[e], want)
				}
			}
		})
	}
}

// connectAll makes n connections from several goroutines and counts where they ended.
func connectAll(b *Balancer, dead []netip.AddrPort, workers, n int) map[netip.AddrPort]int {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		ends = map[netip.AddrPort]int{}
		todo = make(chan struct{}, n)
	)
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	for range workers {
		wg.Go(func() {
			for range todo {
				e, _ := connect(b, client, dead)
				mu.Lock()
				ends[e]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return ends
}

func TestUpdateKeepsTheTurn(t *testing.T) {
	a := endpoints(6)
	for _, tc := range []struct {
		name         string
		old          []netip.AddrPort
		picked       int
		new          []netip.AddrPort
		want         []netip.AddrPort
		wantRestarts int
	}{
		{"same", a[:3], 2, a[:3], []netip.AddrPort{a[2], a[0], a[1]}, 1},
		{"added before the turn", a[1:3], 1, a[:3], []netip.AddrPort{a[2], a[0], a[1], a[2]}, 1},
		{"added after the turn", a[:2], 1, a[:4], []netip.AddrPort{a[1], a[2], a[3], a[0]}, 1},
		{"removed one not in turn", a[:3], 1, []netip.AddrPort{a[0], a[1]}, []netip.AddrPort{a[1], a[0]}, 1},
		{"removed the one in turn", a[:3], 1, []netip.AddrPort{a[0], a[2]}, []netip.AddrPort{a[2], a[0]}, 1},
		{"removed it, the last", a[:3], 2, a[:2], []netip.AddrPort{a[0], a[1]}, 1},
		{"removed and added", a[:4], 2, []netip.AddrPort{a[0], a[3], a[4]}, []netip.AddrPort{a[3], a[4], a[0]}, 1},
		{"all replaced", a[:3], 2, a[3:], []netip.AddrPort{a[3], a[4], a[5]}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			restarts := 0
			b := newBalancer(Options{Start: func(int) int { restarts++; return 0 }})
			b.SetEndpoints(tc.old)
			picks(b, tc.picked)
			b.SetEndpoints(tc.new)
			expect(t, picks(b, len(tc.want)), tc.want...)
			if restarts != tc.wantRestarts {
				t.Errorf("began at Options.Start %d times, want %d", restarts, tc.wantRestarts)
			}
		})
	}
}

func TestUpdatesUnderLoadStayEven(t *testing.T) {
	a := endpoints(4)
	b := balancer(a[:3])
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2000 {
			b.SetEndpoints(a)
			b.SetEndpoints(a[:3])
		}
	})
	got := connectAll(b, nil, 4, 30_000)
	wg.Wait()
	for _, e := range a[1:3] { // the three that never left keep their order, whatever comes between them
		if d := got[a[0]] - got[e]; d < -1 || d > 1 {
			t.Errorf("%v got %d connections, %v %d", a[0], got[a[0]], e, got[e])
		}
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	b := balancer(endpoints(10))
	tried := endpoints(2)
	if n := testing.AllocsPerRun(1000, func() {
		b.Pick(client, nil, byDefault)
		b.Pick(client, tried, byDefault)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := balancer(endpoints(n))
			for b.Loop() {
				r.Pick(client, nil, byDefault)
			}
		})
	}
}

func BenchmarkPickFromAllCores(b *testing.B) {
	r := balancer(endpoints(100))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Pick(client, nil, byDefault)
		}
	})
}

func BenchmarkSetEndpoints(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := endpoints(n)
			r := balancer(a)
			for i := 0; b.Loop(); i++ {
				r.SetEndpoints(a[i%2:])
			}
		})
	}
}
