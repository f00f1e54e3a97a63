// Package balance chooses which endpoint of a service port a client goes to: in turn, or by ClientIP affinity. It does
// not know what an endpoint is behind its address, and never dials one.
package balance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options tune a Balancer. The zero value is right outside tests.
type Options struct {
	Start       func(n int) int // where among n endpoints the turn begins, in [0, n); nil = at random
	MaxBindings int             // clients bound at one time at most; 0 = 1<<18
}

// Balancer hands out the endpoints of one front in turn, each as often as the others, and binds clients to them when
// affinity is on. It is safe for concurrent use; no call waits for anything but the others' short critical sections.
type Balancer struct {
	start func(n int) int

	mu       sync.Mutex
	ring     []*endpoint // sorted by address
	next     int         // index in ring of the endpoint whose turn it is
	bindings bindings
}

// endpoint is one place in the ring. One that left and came back is a new one: what was bound to it stays forgotten.
// There may be a million, so the fields stand as closely as they can.
type endpoint struct {
	addr  netip.Addr
	port  uint16
	gone  bool
	bound int32 // bindings that point here
}

func (e *endpoint) addrPort() netip.AddrPort { return netip.AddrPortFrom(e.addr, e.port) }

// New returns a Balancer without endpoints and without affinity.
func New(o Options) *Balancer {
	b := &Balancer{start: o.Start}
	if b.start == nil {
		b.start = rand.IntN // so that nodes do not all begin with the same endpoint
	}
	b.bindings.init(o.MaxBindings)
	return b
}

// Pick returns the endpoint whose turn it is, leaving out those tried, or the one the client is bound to. The turn of
// one left out is lost, which is what it takes for the others to be used evenly when it is dead. Affinity is "" when
// it is off, otherwise Fresh, Hit or Moved. False: no endpoint is left. Without tried it costs the same for any number
// of endpoints, and without affinity it allocates nothing.
func (b *Balancer) Pick(client netip.Addr, tried []netip.AddrPort) (addr netip.AddrPort, affinity string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var e *endpoint
	if b.bindings.on() {
		e, affinity = b.pickBound(client.Unmap(), tried)
	} else {
		e = b.turn(tried)
	}
	if e == nil {
		return netip.AddrPort{}, "", false
	}
	return e.addrPort(), affinity, true
}

// turn gives the next endpoint that was not tried its turn; nil when all were.
func (b *Balancer) turn(tried []netip.AddrPort) *endpoint {
	for range b.ring {
		e := b.ring[b.next]
		if b.next++; b.next == len(b.ring) {
			b.next = 0
		}
		if !slices.Contains(tried, e.addrPort()) {
			return e
		}
	}
	return nil
}

// pickBound returns the client's endpoint, binding the client when it has none or when that one was tried.
func (b *Balancer) pickBound(client netip.Addr, tried []netip.AddrPort) (*endpoint, string) {
	now := b.bindings.now()
	b.bindings.expire(now, 2) // more than one bind adds, so the table shrinks to what is alive
	bound := b.bindings.find(client, now)
	if bound != nil && !slices.Contains(tried, bound.addrPort()) {
		b.bindings.bind(client, bound, now)
		return bound, Hit
	}
	e := b.turn(tried)
	if e == nil {
		return nil, ""
	}
	b.bindings.bind(client, e, now)
	if bound != nil {
		return e, Moved
	}
	return e, Fresh
}

// SetEndpoints replaces the endpoints. The turn goes on where it was: next comes the one of the old whose turn it was,
// or the first after it that is still there; new ones take their place by address. With none left of the old, it
// begins anew at Options.Start. Clients bound to an endpoint that is gone are forgotten.
func (b *Balancer) SetEndpoints(addrs []netip.AddrPort) {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.Compact(addrs)

	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.EqualFunc(b.ring, addrs, func(e *endpoint, a netip.AddrPort) bool { return e.addrPort() == a }) {
		return
	}
	old := b.ring
	b.ring = merge(old, addrs)
	b.next = b.resume(old)
	for _, e := range old {
		if e.gone {
			b.bindings.forget(e)
		}
	}
}

// merge returns the ring of addrs, with those endpoints of old that stay, and marks the others gone.
func merge(old []*endpoint, addrs []netip.AddrPort) []*endpoint {
	for _, e := range old {
		e.gone = true
	}
	ring := make([]*endpoint, len(addrs))
	for i, addr := range addrs {
		if at, ok := search(old, addr); ok {
			ring[i] = old[at]
			ring[i].gone = false
		} else {
			ring[i] = &endpoint{addr: addr.Addr(), port: addr.Port()}
		}
	}
	return ring
}

// resume returns whose turn it is in the new ring; b.next is still of the old one.
func (b *Balancer) resume(old []*endpoint) int {
	for i := range old {
		if e := old[(b.next+i)%len(old)]; !e.gone {
			at, _ := search(b.ring, e.addrPort())
			return at
		}
	}
	if len(b.ring) == 0 {
		return 0
	}
	return b.start(len(b.ring))
}

func search(ring []*endpoint, addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(ring, addr, func(e *endpoint, a netip.AddrPort) int { return e.addrPort().Compare(a) })
}

// SetAffinity binds clients by address for as long as they come back within timeout; 0 ends that and forgets them. A
// new timeout holds at once for those who are bound already.
func (b *Balancer) SetAffinity(timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bindings.timeout = max(timeout, 0)
	if !b.bindings.on() {
		b.bindings.clear()
	}
}

// Bindings returns how many clients are bound. It costs O(those that expired since the last call).
func (b *Balancer) Bindings() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bindings.expire(b.bindings.now(), b.bindings.size())
	return b.bindings.live()
}
