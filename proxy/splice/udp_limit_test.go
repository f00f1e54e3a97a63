package splice

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
)

// The session that makes room: one with its answer before one that waits for it, a detached one before an attached one,
// and the least recently used of each kind.
func TestEvictionOrder(t *testing.T) {
	inUDPBed(t, Options{UDPSessions: 6}, &service.Port{}, 1, func(b *udpBed) {
		b.say(1, "x")          // detached while it waits
		b.say(2, "x").reply(1) // detached
		b.serve(1)
		b.say(3, "x")
		b.say(4, "x")
		late := b.say(5, "x")
		b.say(6, "x").reply(1)
		late.reply(1)
		for i := range 6 {
			b.say(10+i, "x")
		}
		b.wantOutcomes("192.0.2.2 limit", "192.0.2.6 limit", "192.0.2.5 limit", "192.0.2.1 limit", "192.0.2.3 limit",
			"192.0.2.4 limit")
	})
}

// A session that has waited for longer than answers take makes room before one with its answer, not before a detached
// one.
func TestEvictionOfOverdue(t *testing.T) {
	inUDPBed(t, Options{UDPSessions: 3}, &service.Port{}, 2, func(b *udpBed) {
		b.say(1, "x")
		b.pass(answerTime)
		b.say(2, "x").reply(1) // of the second endpoint
		b.say(3, "x").reply(1)
		b.serve(0)
		b.say(4, "x")
		b.say(5, "x")
		b.wantOutcomes("192.0.2.2 limit", "192.0.2.1 limit")
	})
}

// A client with many sessions makes room by its own.
func TestEvictionOfHeavyClient(t *testing.T) {
	inUDPBed(t, Options{UDPSessions: 32}, &service.Port{}, 1, func(b *udpBed) {
		b.say(2, "x").reply(1)
		for i := range 100 {
			b.sayFrom(1, 1+i, "x").reply(1)
		}
		if slices.Contains(b.outcomes(), "192.0.2.2 limit") || len(b.records) < 60 {
			t.Errorf("%d records: %q", len(b.records), b.outcomes())
		}
	})
}

// A Service that has most of the sessions of all gives some back when another needs them.
func TestEvictionForOthers(t *testing.T) {
	account := quota.NewAccount(quota.Budget{Sessions: 20})
	inUDPBed(t, Options{Account: account}, &service.Port{}, 1, func(b *udpBed) {
		for i := range 40 {
			b.say(i, "x").reply(1)
		}
		before := len(b.records)
		other := account.Service(service.Name{Namespace: "shop", Name: "other"})
		h := other.Client(netip.MustParseAddr("192.0.2.99"))
		var taken int
		for range 6 {
			if h.TakeSession(taken) == nil {
				taken++
			}
		}
		for range taken {
			h.GiveSession()
		}
		h.Leave()
		other.Leave()
		b.run()
		if taken == 0 || len(b.records) == before {
			t.Errorf("%d sessions for another Service, %d evicted", taken, len(b.records)-before)
		}
	})
}

// A client that has more than its share, since others have come, has new sessions all the same: each in the place of
// two.
func TestEvictionWhereShareIsLess(t *testing.T) {
	account := quota.NewAccount(quota.Budget{Sessions: 1000, Descriptors: 80})
	inUDPBed(t, Options{Account: account}, &service.Port{}, 1, func(b *udpBed) {
		for i := range 100 {
			b.sayFrom(1, 1+i, "x").reply(1)
		}
		other := account.Service(service.Name{Namespace: "shop", Name: "other"})
		h := other.Client(netip.MustParseAddr("192.0.2.99"))
		const others = 16
		h.TakeAnyway(quota.Descriptors, others)
		had, sent := b.sessions.room().Len(), len(b.sent)
		const more = 8
		for i := range more {
			b.sayFrom(1, 200+i, "y").reply(1)
		}
		if n := len(b.sent) - sent; n != more {
			t.Errorf("%d of %d new sessions are served", n, more)
		}
		if has := b.sessions.room().Len(); has >= had {
			t.Errorf("it had %d sessions, and has %d", had, has)
		}
		h.Give(quota.Descriptors, others)
		h.Leave()
		other.Leave()
	})
}
