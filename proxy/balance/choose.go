package balance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// choose returns the endpoint for a client that affinity binds to none, by the policy's algorithm; nil: all were tried.
// A further dial goes to one that works as far as is known, and in the end to those that are left out.
func (b *Balancer) choose(client netip.Addr, tried []netip.AddrPort, policy *service.Policy) *member {
	if len(b.ring) == 0 {
		return nil
	}
	if policy.Algorithm == service.SourceHash {
		if m := b.bySource(client, tried); m != nil {
			return m
		}
	}
	if len(tried) > 0 {
		return b.turn(tried)
	}
	switch policy.Algorithm {
	case service.LeastConnections:
		return b.leastConnections()
	case service.Random:
		return b.mature(b.any())
	case service.SourceHash: // the client's own is left out
		return b.any()
	}
	return b.mature(b.turn(nil))
}

// turn returns the next endpoint that was not tried; nil when all were.
func (b *Balancer) turn(tried []netip.AddrPort) *member {
	var failing *member
	for range b.active {
		m := b.active[b.next]
		if b.next++; b.next == len(b.active) {
			b.next = 0
		}
		switch {
		case len(tried) == 0:
			return m
		case slices.Contains(tried, m.addrPort()):
		case !m.is(bad):
			return m
		case failing == nil:
			failing = m
		}
	}
	if failing != nil {
		return failing
	}
	at := slices.IndexFunc(b.out, func(m *member) bool { return !slices.Contains(tried, m.addrPort()) })
	if at < 0 {
		return nil
	}
	return b.out[at]
}

func (b *Balancer) any() *member { return b.active[rand.IntN(len(b.active))] }

// leastConnections returns the one with fewer leases of two that are drawn at random, which spreads almost as well as
// the least of all would and costs the same for any number of endpoints. (Mitzenmacher, The Power of Two Choices,
// 2001.)
func (b *Balancer) leastConnections() *member {
	x := b.any()
	if len(b.active) == 1 {
		return x
	}
	y := b.active[rand.IntN(len(b.active)-1)]
	if y == x {
		y = b.active[len(b.active)-1]
	}
	if b.load(y) < b.load(x) {
		return y
	}
	return x
}

// load is how many leases a member has, and more of one that is new.
func (b *Balancer) load(m *member) float64 {
	open := 0
	if e := b.port.endpoints[m.addrPort()]; e != nil {
		open = e.open
	}
	return float64(open+1) / b.weight(m)
}

// leastWeight is what share of the connections of the others an endpoint begins with.
const leastWeight = 0.1

// weight is what share of the connections of the others a member gets, which grows while it is new.
func (b *Balancer) weight(m *member) float64 {
	since, is := b.young[m]
	if !is || b.slowStart <= 0 {
		return 1
	}
	age := time.Since(since)
	if age >= b.slowStart {
		delete(b.young, m)
		return 1
	}
	return max(leastWeight, float64(age)/float64(b.slowStart))
}

// mature returns a member that was chosen, or one at random in its place as often as the member is new.
func (b *Balancer) mature(m *member) *member {
	for range 3 { // others may be new too
		if len(b.young) == 0 || rand.Float64() < b.weight(m) {
			break
		}
		m = b.any()
	}
	return m
}

// begins notes which members of a ring are new. If all are, none gets less than others.
func (b *Balancer) begins(old []*member) {
	for m := range b.young {
		if m.is(gone) {
			delete(b.young, m)
		}
	}
	if b.slowStart <= 0 || len(old) == 0 {
		return
	}
	now := time.Now()
	for _, m := range b.ring {
		if _, before := search(old, m.addrPort()); !before {
			if b.young == nil {
				b.young = map[*member]time.Time{}
			}
			b.young[m] = now
		}
	}
}
