package splice

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
)

// Each limit refuses with an outcome of its own, and a refused client takes nothing of any.
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

// A limit that is set, by the Service or for all, counts all that are open already; one that is taken away limits
// nothing.
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
				b.pass(2 * time.Minute) // all sessions end, and none is counted any more
				set(b, 1)
				b.run()
				b.sayFrom(1, 6, "x")
				limited := slices.DeleteFunc(b.outcomes(), func(o string) bool { return o != "192.0.2.1 client_limit" })
				if len(limited) != 1 {
					t.Errorf("outcomes %q", b.outcomes())
				}
			})
		})
	}
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
				l := life{entry: entry{front: f, plan: p, client: netip.AddrPortFrom(clients[i%1000], 1)}}
				l.admission.enter(&l.entry, time.Since(start))
				l.admission.uncount(&l.entry)
			}
		})
	}
}
