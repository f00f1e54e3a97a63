// Package balance chooses which endpoint of a service port a client goes to: by ClientIP affinity, or by the algorithm
// of the service port. It keeps what connections report of endpoints, and leaves out for a while those that fail them.
// It does not know what an endpoint is behind its address, and never dials one.
//
// Endpoints is the register of all service ports, with drains, ejections and statistics. A Balancer is the choice of
// one front: its rotation has the endpoints that take part and whose turn it is, its bindings the clients that affinity
// binds. A Pick opens a lease of an Endpoint, to which the connection reports how the dial and the rest went:
//
//	p := balancer.Pick(client, tried, policy) // p.Endpoint is nil if none is left
//	p.Endpoint.Dialled(err, took)             // once; an error ends the lease
//	p.Endpoint.Answered()                     // at its first byte
//	p.Endpoint.Ended(client, broken, firstByte)
package balance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
)

// Options of a Balancer. The zero value is right outside tests.
type Options struct {
	Start       func(n int) int // where among n endpoints the turn begins, in [0, n); nil = at random
	MaxBindings int             // clients bound at one time at most; 0 = 1<<18
}

// Balancer hands out the endpoints of one front, in turn unless a policy says otherwise, and binds clients to them when
// affinity is on. It is safe for concurrent use; no call waits for anything but short critical sections of the same
// service port.
type Balancer struct {
	port   *port
	hashes atomic.Bool // a policy has had source hash since the endpoints changed

	// guarded by port.mu
	closed   bool
	rotation rotation
	drained  []netip.AddrPort // listed too, and left out of the rotation
	bindings bindings
}

// New returns a Balancer of a service port, without endpoints and without affinity.
func New(all *Endpoints, name service.PortName, o Options) *Balancer {
	b := &Balancer{}
	if b.rotation.start = o.Start; o.Start == nil {
		b.rotation.start = rand.IntN // so that nodes do not all begin with the same endpoint
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
		for _, m := range b.rotation.members {
			b.release(m)
		}
		b.port.forgetGone(len(b.port.balancers) == 0)
	}
	unused := b.port.unused()
	b.port.mu.Unlock()
	if unused {
		b.port.all.dropUnused(b.port)
	}
}

// Picked is an endpoint that was picked.
type Picked struct {
	Endpoint *Endpoint // nil: none is left
	Affinity string    // "" when it is off, otherwise Fresh, Hit or Moved
	Ejected  int       // endpoints that are left out
	Probe    bool      // the endpoint was one of them, and is tried again
	Again    bool      // it is the client's own: if the dial fails, it is picked once more
}

// Pick opens a lease of the endpoint that the client is bound to, or else of one that the policy's algorithm chooses,
// leaving out those tried, in which an endpoint stands as often as a dial of it has failed. An endpoint that is left
// out loses its turn, so that the others are used evenly while it is dead. Without tried it costs the same for any
// number of endpoints, and without affinity it allocates only the Endpoint, once.
func (b *Balancer) Pick(client netip.Addr, tried []netip.AddrPort, policy *service.Policy) (p Picked) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.obey(policy, len(tried) == 0)
	client = client.Unmap()
	var m *member
	if b.bindings.on() {
		m = b.pickBound(client, tried, policy, &p)
	} else {
		m, p.Probe = b.pickFree(client, tried, policy)
	}
	if m == nil {
		return Picked{}
	}
	p.Endpoint, p.Ejected = b.endpoint(m), len(b.rotation.leftOut)
	p.Endpoint.open++
	return p
}

// obey takes over what a policy says.
func (b *Balancer) obey(policy *service.Policy, first bool) {
	b.port.obey(policy)
	b.rotation.slowStart.time = policy.SlowStart
	if policy.Algorithm == service.SourceHash && !b.hashes.Load() {
		b.hashes.Store(true)
	}
	if first {
		b.port.budget.connection(policy.RetryBudget)
	}
}

// endpoint returns the endpoint of a member, which is kept while the member is listed.
func (b *Balancer) endpoint(m *member) *Endpoint {
	e := b.port.endpoint(m.addrPort())
	if !m.is(listed) && !b.closed {
		m.set(listed, true)
		e.lists++
	}
	return e
}

// release lets go of the endpoint of a member that is no longer listed.
func (b *Balancer) release(m *member) {
	if m.is(listed) {
		m.set(listed, false)
		e := b.port.endpoint(m.addrPort())
		e.lists--
		e.dropUnused()
	}
}

// pickFree returns the endpoint for a client that is bound to none: one that is tried again (probe), or one by the
// policy's algorithm.
func (b *Balancer) pickFree(client netip.Addr, tried []netip.AddrPort, policy *service.Policy) (m *member, probe bool) {
	if m = b.rotation.probe(tried); m != nil {
		return m, true
	}
	return b.rotation.choose(client, tried, policy), false
}

// pickBound returns the client's endpoint. The client is bound when it has none, when that one was tried twice, or when
// it is left out.
func (b *Balancer) pickBound(client netip.Addr, tried []netip.AddrPort, policy *service.Policy, p *Picked) *member {
	now := b.bindings.now()
	b.bindings.expire(now, 2) // more than one bind adds, so the table shrinks to what is alive
	bound := b.bindings.find(client, now)
	if bound != nil && !bound.is(leftOut) {
		if n := count(tried, bound.addrPort()); n < 2 {
			b.bindings.bind(client, bound, now)
			p.Affinity, p.Again = Hit, n == 0
			return bound
		}
	}
	var m *member
	if m, p.Probe = b.pickFree(client, tried, policy); m == nil {
		return nil
	}
	b.bindings.bind(client, m, now)
	if p.Affinity = Fresh; bound != nil {
		p.Affinity = Moved
	}
	return m
}

func count(list []netip.AddrPort, of netip.AddrPort) (n int) {
	for _, a := range list {
		if a == of {
			n++
		}
	}
	return n
}

// SetEndpoints replaces the endpoints. The turn goes on where it was: next comes the endpoint whose turn it was, or the
// first after it that is still there; new ones take their place by address. If none of the old ones is left, it begins
// again at Options.Start. Clients bound to an endpoint that is gone are forgotten. Drained endpoints are left out.
func (b *Balancer) SetEndpoints(addrs []netip.AddrPort) {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.Compact(addrs)

	var t table
	if b.hashes.Swap(false) && len(addrs) > 0 {
		t = newTable(addrs) // picks do not wait for that
	}
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	if b.list(addrs) && len(b.drained) == 0 {
		b.rotation.table = t
	}
}

// listed returns the endpoints of SetEndpoints.
func (b *Balancer) listed() []netip.AddrPort {
	addrs := append(addresses(b.rotation.members), b.drained...)
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return addrs
}

// list sets the rotation to a sorted list without the drained endpoints. False: nothing changes.
func (b *Balancer) list(addrs []netip.AddrPort) bool {
	addrs, b.drained = b.port.split(addrs)
	if b.rotation.equals(addrs) {
		return false
	}
	b.rotation.replace(addrs, func(m *member) {
		b.release(m)
		b.bindings.forget(m)
	})
	b.port.forgetGone(false)
	return true
}

// SetAffinity binds clients by address for as long as they come back within timeout; 0 ends that and forgets them. A
// new timeout applies at once to clients that are bound already.
func (b *Balancer) SetAffinity(timeout time.Duration) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.bindings.timeout = max(timeout, 0)
	if !b.bindings.on() {
		b.bindings.clear()
	}
}

// Join returns an endpoint that was picked before the balancer was made, as if that had been by Pick: a lease.
func (b *Balancer) Join(at netip.AddrPort) *Endpoint {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	e := b.port.endpoint(at)
	e.open++
	return e
}
