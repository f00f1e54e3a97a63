// Package balance chooses which endpoint of a service port a client goes to: in turn, or by ClientIP affinity. It keeps
// what connections report of endpoints. It does not know what an endpoint is behind its address, and never dials one.
package balance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/service"
)

// Options of a Balancer. The zero value is right outside tests.
type Options struct {
	Start       func(n int) int // where among n endpoints the turn begins, in [0, n); nil = at random
	MaxBindings int             // clients bound at one time at most; 0 = 1<<18
}

// Balancer hands out the endpoints of one front in turn, each as often as the others, and binds clients to them when
// affinity is on. It is safe for concurrent use; no call waits for anything but short critical sections of the same
// service port.
type Balancer struct {
	start func(n int) int
	port  *port

	// guarded by port.mu
	closed   bool
	ring     []*member        // sorted by address
	left     []netip.AddrPort // listed too, and left out of the ring since they are drained
	next     int              // index in ring of the member whose turn it is
	bindings bindings
}

// member is an endpoint in the ring. One that left and came back is a new member: what was bound to it stays forgotten.
// There may be a million, so the fields are packed.
type member struct {
	addr   netip.Addr
	port   uint16
	listed bool // in the Endpoint's lists: from its first pick on
	gone   bool
	bound  int32 // bindings that point here
}

func (m *member) addrPort() netip.AddrPort { return netip.AddrPortFrom(m.addr, m.port) }

// New returns a Balancer of a service port, without endpoints and without affinity.
func New(all *Endpoints, name service.PortName, o Options) *Balancer {
	b := &Balancer{start: o.Start}
	if b.start == nil {
		b.start = rand.IntN // so that nodes do not all begin with the same endpoint
	}
	b.bindings.init(o.MaxBindings)
	all.join(name, b)
	return b
}

// Close releases the balancer's endpoints. Pick goes on with the last list, for connections that retry.
func (b *Balancer) Close() {
	b.port.mu.Lock()
	if !b.closed {
		b.closed = true
		b.port.balancers = slices.DeleteFunc(b.port.balancers, func(other *Balancer) bool { return other == b })
		for _, m := range b.ring {
			b.release(m)
		}
	}
	unused := b.port.unused()
	b.port.mu.Unlock()
	if unused {
		b.port.all.dropUnused(b.port)
	}
}

// Pick opens a lease of the endpoint whose turn it is, leaving out those tried, or of the one the client is bound to.
// The turn of one left out is lost, which is what it takes for the others to be used evenly when it is dead. Affinity
// is "" when it is off, otherwise Fresh, Hit or Moved. Nil: no endpoint is left. Without tried it costs the same for
// any number of endpoints, and without affinity it allocates only what is known of an endpoint, once.
func (b *Balancer) Pick(client netip.Addr, tried []netip.AddrPort) (e *Endpoint, affinity string) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	var m *member
	if b.bindings.on() {
		m, affinity = b.pickBound(client.Unmap(), tried)
	} else {
		m = b.turn(tried)
	}
	if m == nil {
		return nil, ""
	}
	e = b.endpoint(m)
	e.open++
	return e, affinity
}

// endpoint returns the endpoint of a member, which is kept while the member is listed.
func (b *Balancer) endpoint(m *member) *Endpoint {
	e := b.port.endpoint(m.addrPort())
	if !m.listed && !b.closed {
		m.listed = true
		e.lists++
	}
	return e
}

// release lets go of the endpoint of a member that is no longer listed.
func (b *Balancer) release(m *member) {
	if m.listed {
		m.listed = false
		e := b.port.endpoint(m.addrPort())
		e.lists--
		e.dropUnused()
	}
}

// turn returns the next endpoint that was not tried; nil when all were.
func (b *Balancer) turn(tried []netip.AddrPort) *member {
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
func (b *Balancer) pickBound(client netip.Addr, tried []netip.AddrPort) (*member, string) {
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
// begins anew at Options.Start. Clients bound to an endpoint that is gone are forgotten. What is drained is left out.
func (b *Balancer) SetEndpoints(addrs []netip.AddrPort) {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.Compact(addrs)

	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.list(addrs)
}

// listed returns the endpoints of SetEndpoints.
func (b *Balancer) listed() []netip.AddrPort {
	addrs := slices.Clone(b.left)
	for _, m := range b.ring {
		addrs = append(addrs, m.addrPort())
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return addrs
}

// list replaces the ring by a sorted list, but for what is drained.
func (b *Balancer) list(addrs []netip.AddrPort) {
	addrs, b.left = b.port.split(addrs)
	if slices.EqualFunc(b.ring, addrs, func(e *member, a netip.AddrPort) bool { return e.addrPort() == a }) {
		return
	}
	old := b.ring
	b.ring = merge(old, addrs)
	b.next = b.resume(old)
	for _, e := range old {
		if e.gone {
			b.release(e)
			b.bindings.forget(e)
		}
	}
}

// merge returns the ring of addrs, with those endpoints of old that stay, and marks the others gone.
func merge(old []*member, addrs []netip.AddrPort) []*member {
	for _, e := range old {
		e.gone = true
	}
	ring := make([]*member, len(addrs))
	for i, addr := range addrs {
		if at, ok := search(old, addr); ok {
			ring[i] = old[at]
			ring[i].gone = false
		} else {
			ring[i] = &member{addr: addr.Addr(), port: addr.Port()}
		}
	}
	return ring
}

// resume returns whose turn it is in the new ring; b.next is still of the old one.
func (b *Balancer) resume(old []*member) int {
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

func search(ring []*member, addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(ring, addr, func(e *member, a netip.AddrPort) int { return e.addrPort().Compare(a) })
}

// SetAffinity binds clients by address for as long as they come back within timeout; 0 ends that and forgets them. A
// new timeout holds at once for those who are bound already.
func (b *Balancer) SetAffinity(timeout time.Duration) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.bindings.timeout = max(timeout, 0)
	if !b.bindings.on() {
		b.bindings.clear()
	}
}

// Bindings returns how many clients are bound. It costs O(those that expired since the last call).
func (b *Balancer) Bindings() int {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.bindings.expire(b.bindings.now(), b.bindings.size())
	return b.bindings.live()
}

// Join returns an endpoint that was picked before the balancer was made, as if that had been by Pick: a lease.
func (b *Balancer) Join(at netip.AddrPort) *Endpoint {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	e := b.port.endpoint(at)
	e.open++
	return e
}
