package splice

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// A pace lets through a second's worth at once, and then exactly its rate, whatever the rate and however clients try.
func TestPaceKeepsItsRate(t *testing.T) {
	for _, rate := range []int{1, 3, 10, 1000} {
		var p pace
		began := 0
		try := func(now time.Duration) {
			if next, ok := p.next(now, rate); ok {
				p = next
				began++
			}
		}
		for range 2 * rate {
			try(time.Hour)
		}
		if began != rate {
			t.Errorf("%d a second: %d at once", rate, began)
		}
		const seconds = 10
		step := time.Second / time.Duration(4*rate)
		for now := time.Hour; now <= time.Hour+seconds*time.Second; now += step {
			try(now)
		}
		if want := rate + seconds*rate; began > want || began < want-1 { // the last may be due just after
			t.Errorf("%d a second: %d in %d s, want %d", rate, began, seconds, want)
		}
		if next, ok := p.next(0, rate); ok || next < p {
			t.Errorf("%d a second: a clock that goes back lets one through", rate)
		}
	}
}

// Each limit refuses with an outcome of its own, and what is refused takes nothing of any.
func TestSharesOfClients(t *testing.T) {
	under := func(s service.Shares) *service.Port { return &service.Port{Policy: service.Policy{Shares: s}} }
	inUDPBed(t, Options{}, under(service.Shares{MaxConnectionsPerClient: 2}), 1, func(b *udpBed) {
		for port := range 4 {
			b.sayFrom(1, port+1, "x")
		}
		b.say(2, "x")
		b.wantOutcomes("192.0.2.1 client_limit", "192.0.2.1 client_limit")
		b.pass(2 * time.Minute) // the sessions end
		b.sayFrom(1, 9, "x")
		b.wantOutcomes("192.0.2.1 client_limit", "192.0.2.1 client_limit", "192.0.2.1 ok", "192.0.2.1 ok", "192.0.2.2 ok")
	})
	inUDPBed(t, Options{}, under(service.Shares{ConnectionRatePerClient: 2, ConnectionRate: 4}), 1, func(b *udpBed) {
		for port := range 20 {
			b.sayFrom(1, port+1, "x") // takes two of the four
		}
		b.sayFrom(2, 1, "x")
		b.sayFrom(3, 1, "x")
		b.sayFrom(4, 1, "x")
		want := slices.Repeat([]string{"192.0.2.1 client_rate"}, 18)
		b.wantOutcomes(append(want, "192.0.2.4 rate")...)
		b.pass(250 * time.Millisecond)
		b.sayFrom(4, 1, "x")                           // who was refused before has lost nothing
		if b.pass(time.Second); len(b.records) != 19 { // and each second brings the same again
			t.Errorf("records of %q", b.outcomes())
		}
		for client := range 5 {
			b.sayFrom(client, 99, "x")
		}
		b.wantOutcomes(append(want, "192.0.2.4 rate", "192.0.2.4 rate")...)
	})
	limited := under(service.Shares{ConnectionRate: 2})
	limited.Policy.MaxConnections = 1
	inUDPBed(t, Options{}, limited, 1, func(b *udpBed) {
		for port := range 5 {
			b.sayFrom(1, port+1, "x")
		}
		b.front.Retarget(b.view(under(service.Shares{ConnectionRate: 2}), 1))
		b.sayFrom(1, 8, "x") // those above the limit have taken nothing of the rate
		b.sayFrom(1, 9, "x")
		b.wantOutcomes(append(slices.Repeat([]string{"192.0.2.1 limit"}, 4), "192.0.2.1 rate")...)
	})
}

// A limit that is set, by the Service or for all, counts what is open already; one that is taken away is none.
func TestSharesChange(t *testing.T) {
	with := func(most int) *service.Port {
		return &service.Port{Policy: service.Policy{Shares: service.Shares{MaxConnectionsPerClient: most}}}
	}
	for name, set := range map[string]func(b *udpBed, most int){
		"by the Service": func(b *udpBed, most int) { b.front.Retarget(b.view(with(most), 1)) },
		"for all": func(b *udpBed, most int) {
			b.core.SetPolicy(service.Policy{Shares: service.Shares{MaxConnectionsPerClient: most}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
				for port := range 3 {
					b.sayFrom(1, port+1, "x")
				}
				for range 2 { // to set it again counts nothing twice
					set(b, -1)
					set(b, 4)
					b.run()
				}
				b.sayFrom(1, 4, "x")
				b.sayFrom(1, 5, "x")
				b.say(2, "x")
				b.wantOutcomes("192.0.2.1 client_limit")
				set(b, -1)
				b.run()
				b.sayFrom(1, 5, "x")
				b.wantOutcomes("192.0.2.1 client_limit")
				if b.pass(2 * time.Minute); b.front.fair.open != nil {
					t.Errorf("left: %v", b.front.fair.open)
				}
			})
		})
	}
}

// A flood of forged addresses takes no more than so much memory, keeps nobody out, and is forgotten soon after.
func TestFloodOfClientsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPlan(&View{Port: &service.Port{}}, &service.Policy{Shares: service.Shares{ConnectionRatePerClient: 1}})
		f := &Front{}
		begin := func(client netip.Addr) record.Outcome {
			l := life{front: f, plan: p, client: netip.AddrPortFrom(client, 1)}
			defer l.uncount()
			return l.enter(time.Since(start))
		}
		honest := netip.MustParseAddr("192.0.2.1")
		for i := range 5 * mostRecent {
			if i%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
			forged := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			if o := begin(forged); o != "" {
				t.Fatalf("address %d of the flood: %s", i, o)
			}
			if i%mostRecent == 0 {
				begin(honest)
			}
			if n, _ := remembered(&f.fair); n > 2*mostRecent {
				t.Fatalf("%d clients are remembered", n)
			}
		}
		if o := begin(netip.MustParseAddr("192.0.2.2")); o != "" {
			t.Errorf("a new client is refused: %s", o)
		}
		time.Sleep(3 * time.Second)
		if n, aging := remembered(&f.fair); n != 0 || aging || f.fair.recent != nil || f.fair.older != nil {
			t.Errorf("%d clients are remembered after 3 s", n)
		}
	})
}

func remembered(r *fairness) (clients int, aging bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.recent) + len(r.older), r.aging
}

// Who began one within the last second is remembered, at whatever moment of it others are forgotten.
func TestClientsAreRememberedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, r, client := time.Now(), &fairness{}, netip.MustParseAddr("192.0.2.1")
		other := netip.MustParseAddr("192.0.2.2")
		r.mu.Lock()
		r.note(other, 0)
		r.mu.Unlock()
		time.Sleep(700 * time.Millisecond)
		for i := range 100 {
			r.mu.Lock()
			after, ok := r.paceOf(client).next(time.Since(start), 1)
			if ok {
				r.note(client, after)
			}
			r.note(other, pace(time.Since(start)))
			r.mu.Unlock()
			if want := i%5 == 0; ok != want {
				t.Fatalf("after %s: let through %t", time.Since(start), ok)
			}
			time.Sleep(200*time.Millisecond + 1)
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	const most, fast = 10, 1_000_000
	for _, c := range []struct {
		name string
		service.Shares
	}{
		{"unset", service.Shares{}},
		{"rate", service.Shares{ConnectionRate: fast}},
		{"client", service.Shares{MaxConnectionsPerClient: most}},
		{"all", service.Shares{MaxConnectionsPerClient: most, ConnectionRate: fast, ConnectionRatePerClient: fast}},
	} {
		b.Run(c.name, func(b *testing.B) {
			start := time.Now()
			p := newPlan(&View{Port: &service.Port{}}, &service.Policy{Shares: c.Shares})
			f := &Front{}
			clients := make([]netip.Addr, 1000)
			for i := range clients {
				clients[i] = netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l := life{front: f, plan: p, client: netip.AddrPortFrom(clients[i%1000], 1)}
				l.enter(time.Since(start))
				l.uncount()
			}
		})
	}
}
