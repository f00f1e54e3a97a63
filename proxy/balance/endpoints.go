package balance

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
)

// Endpoints keeps the state of the endpoints that were picked, by service port and address. An endpoint is kept while a
// balancer lists it, a lease of it is open or it is drained, and a service port while it has a balancer or an endpoint
// that is kept. Safe for concurrent use.
type Endpoints struct {
	mu    sync.Mutex // is taken before that of a port
	ports map[service.PortName]*port

	drains    atomic.Int64 // of all service ports
	exhausted atomic.Uint64
	ejecting  ejecting
	ejections ejectionEvents
}

// NewEndpoints returns an Endpoints that knows none.
func NewEndpoints() *Endpoints {
	return &Endpoints{ports: map[service.PortName]*port{}, ejections: newEjectionEvents()}
}

// port is the state that the balancers of a service port share, those of both address families and both scopes.
type port struct {
	all  *Endpoints
	name service.PortName

	mu        sync.Mutex // guards the balancers and the endpoints too, so that a pick takes one lock
	users     int        // callers between acquire and release
	balancers []*Balancer
	endpoints map[netip.AddrPort]*Endpoint // from their first pick on
	drains    map[netip.AddrPort]*drain    // nil: there was none yet
	ejected   map[netip.AddrPort]*Endpoint // nil: there was none yet

	ejectAfter int // of the policy of the last pick
	ejectOn    service.EjectOn
	rechecks   int // calls of Unreached since then
	budget     budget
}

// join gives a balancer the port of its service port.
func (all *Endpoints) join(name service.PortName, b *Balancer) {
	p := all.acquire(name)
	defer all.release(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.port, b.rotation.port = p, p // before others find it there
	p.balancers = append(p.balancers, b)
}

// acquire returns the port of a service port, which is kept until release.
func (all *Endpoints) acquire(name service.PortName) *port {
	all.mu.Lock()
	defer all.mu.Unlock()
	p := all.ports[name]
	if p == nil {
		p = &port{all: all, name: name, endpoints: map[netip.AddrPort]*Endpoint{}}
		all.ports[name] = p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	return p
}

// release ends that. The caller holds no lock.
func (all *Endpoints) release(p *port) {
	p.mu.Lock()
	p.users--
	unused := p.unused()
	p.mu.Unlock()
	if unused {
		all.dropUnused(p)
	}
}

// dropUnused drops a port that has neither a balancer nor an endpoint. The caller holds no lock.
func (all *Endpoints) dropUnused(p *port) {
	all.mu.Lock()
	defer all.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unused() && all.ports[p.name] == p {
		delete(all.ports, p.name)
	}
}

func (p *port) unused() bool {
	return len(p.balancers) == 0 && len(p.endpoints) == 0 && len(p.drains) == 0 && p.users == 0
}

// endpoint returns the endpoint at an address. The caller holds p.mu and refers to it before it lets go of that.
func (p *port) endpoint(addr netip.AddrPort) *Endpoint {
	e := p.endpoints[addr]
	if e == nil {
		e = &Endpoint{port: p, addr: addr}
		p.endpoints[addr] = e
	}
	return e
}
