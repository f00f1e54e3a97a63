package balance

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal/service"
)

// choose returns the endpoint for a client that affinity binds to none, by the policy's algorithm; nil: all were tried.
// A further dial goes to one that works as far as is known, and in the end to those that are left out.
func (r *rotation) choose(client netip.Addr, tried []netip.AddrPort, policy *service.Policy) *member {
	if len(r.members) == 0 {
		return nil
	}
	if policy.Algorithm == service.SourceHash {
		if m := r.bySource(client, tried); m != nil {
			return m
		}
	}
	if len(tried) > 0 {
		return r.turn(tried)
	}
	switch policy.Algorithm {
	case service.LeastConnections:
		return r.leastConnections()
	case service.Random:
		return r.mature(r.any())
	case service.SourceHash: // the client's own is left out
		return r.any()
	}
	return r.mature(r.turn(nil))
}

// turn returns the next endpoint that was not tried; nil when all were.
func (r *rotation) turn(tried []netip.AddrPort) *member {
	var failing *member
	for range r.active {
		m := r.active[r.next]
		if r.next++; r.next == len(r.active) {
			r.next = 0
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
	at := slices.IndexFunc(r.leftOut, func(m *member) bool { return !slices.Contains(tried, m.addrPort()) })
	if at < 0 {
		return nil
	}
	return r.leftOut[at]
}

func (r *rotation) any() *member { return r.active[rand.IntN(len(r.active))] }

// leastConnections returns the one with fewer leases of two that are drawn at random, which spreads almost as well as
// the least of all would and costs the same for any number of endpoints. (Mitzenmacher, The Power of Two Choices,
// 2001.)
func (r *rotation) leastConnections() *member {
	x := r.any()
	if len(r.active) == 1 {
		return x
	}
	y := r.active[rand.IntN(len(r.active)-1)]
	if y == x {
		y = r.active[len(r.active)-1]
	}
	if r.load(y) < r.load(x) {
		return y
	}
	return x
}

// load is how many leases a member has, and more of one that is new.
func (r *rotation) load(m *member) float64 {
	open := 0
	if e := r.port.endpoints[m.addrPort()]; e != nil {
		open = e.open
	}
	return float64(open+1) / r.slowStart.weight(m)
}

// mature returns a member that was chosen, or one at random in its place as often as the member is new.
func (r *rotation) mature(m *member) *member {
	for range 3 { // others may be new too
		if len(r.slowStart.young) == 0 || rand.Float64() < r.slowStart.weight(m) {
			break
		}
		m = r.any()
	}
	return m
}

// otherPlaces is how many further places a client has, whose first ones belong to endpoints that were tried or are left
// out: more than enough to find one of those that are half of all.
const otherPlaces = 32

// bySource returns the endpoint that a client's address belongs to; nil: none was found that was not tried.
func (r *rotation) bySource(client netip.Addr, tried []netip.AddrPort) *member {
	if r.table == nil {
		r.table = newTable(addresses(r.members))
	}
	for n := range uint64(otherPlaces) {
		m := r.members[r.table[hash(netip.AddrPortFrom(client, 0), n)%uint64(len(r.table))]]
		if !m.is(leftOut) && !slices.Contains(tried, m.addrPort()) {
			return m
		}
	}
	return nil
}
