package balance

import (
	"net/netip"
	"slices"
	"time"
)

// Saved is what a successor needs of a Balancer: whose turn it is, and who is bound to whom.
type Saved struct {
	Next     netip.AddrPort
	Bindings []Binding // those used longest ago first
}

// Binding is a client that affinity binds to an endpoint.
type Binding struct {
	Client   netip.Addr
	Endpoint netip.AddrPort
	Unused   time.Duration // since its last use
}

// Save returns the state, with the bindings that were used within that time; 0: with all.
func (b *Balancer) Save(within time.Duration) (s Saved) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	if len(b.ring) > 0 {
		s.Next = b.ring[b.next].addrPort()
	}
	now := b.bindings.now()
	for el := b.bindings.order.Front(); el != nil; el = el.Next() {
		bound := el.Value.(*binding)
		unused := now - bound.used
		if within > 0 && unused > within {
			break
		}
		if !bound.to.gone && !b.bindings.expired(bound, now) {
			s.Bindings = append(s.Bindings, Binding{bound.client, bound.to.addrPort(), unused})
		}
	}
	slices.Reverse(s.Bindings)
	return s
}

// Restore goes on with the state of a predecessor, as far as its endpoints are listed. A client that was bound here
// later than there stays so.
func (b *Balancer) Restore(s Saved) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	if at, listed := search(b.ring, s.Next); listed {
		b.next = at
	}
	if !b.bindings.on() {
		return
	}
	now := b.bindings.now()
	for _, bound := range s.Bindings {
		at, listed := search(b.ring, bound.Endpoint)
		used := now - bound.Unused
		el := b.bindings.byClient[bound.Client]
		if listed && (el == nil || el.Value.(*binding).used < used) {
			b.bindings.bind(bound.Client, b.ring[at], used)
		}
	}
}
