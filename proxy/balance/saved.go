package balance

import (
	"net/netip"
	"slices"
	"time"
)

// Saved is the state of a Balancer for a successor: whose turn it is, who is bound to whom, and who is ejected.
type Saved struct {
	Next     netip.AddrPort
	Bindings []Binding // those used longest ago first
	Ejected  []Ejection
}

// Ejection is an endpoint that is ejected.
type Ejection struct {
	Endpoint netip.AddrPort
	Why      Failure
	Times    int           // in a row
	Left     time.Duration // until a connection tries it again
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
	if len(b.rotation.active) > 0 {
		s.Next = b.rotation.active[b.rotation.next].addrPort()
	}
	now := b.bindings.now()
	for el := b.bindings.order.Front(); el != nil; el = el.Next() {
		bound := el.Value.(*binding)
		unused := now - bound.used
		if within > 0 && unused > within {
			break
		}
		if !bound.to.is(gone) && !b.bindings.expired(bound, now) {
			s.Bindings = append(s.Bindings, Binding{bound.client, bound.to.addrPort(), unused})
		}
	}
	slices.Reverse(s.Bindings)
	for _, m := range b.rotation.members {
		if e := b.port.ejected[m.addrPort()]; e != nil {
			h := &e.health
			s.Ejected = append(s.Ejected, Ejection{e.addr, h.why, h.times, time.Until(h.until)})
		}
	}
	return s
}

// Restore goes on with the state of a predecessor, as far as its endpoints are listed. A client that was bound here
// later than there stays so.
func (b *Balancer) Restore(s Saved) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.restoreEjected(s.Ejected)
	if at, takesPart := search(b.rotation.active, s.Next); takesPart {
		b.rotation.next = at
	}
	if !b.bindings.on() {
		return
	}
	now := b.bindings.now()
	for _, bound := range s.Bindings {
		at, listed := search(b.rotation.members, bound.Endpoint)
		used := now - bound.Unused
		el := b.bindings.byClient[bound.Client]
		if listed && (el == nil || el.Value.(*binding).used < used) {
			b.bindings.bind(bound.Client, b.rotation.members[at], used)
		}
	}
}

// restoreEjected has endpoints be ejected for as long as they were to be.
func (b *Balancer) restoreEjected(all []Ejection) {
	for _, x := range all {
		if _, listed := search(b.rotation.members, x.Endpoint); !listed || x.Why >= failures || x.Times < 1 {
			continue
		}
		e := b.port.endpoint(x.Endpoint)
		if e.health.ejected {
			continue
		}
		e.suspect.Store(true)
		e.lastFailure = time.Now()
		e.health.ejected, e.health.why, e.health.times = true, x.Why, x.Times
		e.health.until = time.Now().Add(min(x.Left, lastBan))
		b.port.eject(e)
	}
}
