package metrics

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// connMetrics counts finished connections and UDP sessions. Every connection is counted once, at its service port: what
// is counted there is adjacent in memory and behind one lock, and its front holds a pointer to it, since with ten
// thousand Services every other lookup misses the caches and costs as much as all counting. The series for Prometheus
// are made of it at each scrape, and so are the totals and the series "other" for everything beyond the limits.
type connMetrics struct {
	descs  connDescs
	bounds bounds
	late   late

	localhost  atomic.Uint64 // connections and sessions at NodePorts of loopback addresses
	mu         sync.Mutex
	ports      map[service.PortName]*portCounts // what follows is guarded by mu, and so are the places of these
	listed     map[service.PortName][]service.Endpoint
	services   places
	histograms places
	endpoints  places
	past       rests // of what is gone, or has got a place since
}

// rest has the counts of one protocol that are exported together, in the series "other".
type rest struct {
	counts    counts         // of service ports without series of their own
	endpoints endpointCounts // of such endpoints
	timings   timings        // of service ports without histograms of their own
	own       timings        // of those with them: they are in the totals of the protocol
}

// rests are of both protocols.
type rests struct{ tcp, udp rest }

func (r *rests) of(p inet.Protocol) *rest {
	if p == inet.UDP {
		return &r.udp
	}
	return &r.tcp
}

// late counts the connections that outlive their service port.
type late struct {
	mu       sync.Mutex
	tcp, udp timings // guarded by mu
}

// portCounts count one service port. It is the observer of its connections.
type portCounts struct {
	all   *connMetrics
	name  service.PortName
	label string
	next  record.Observer // nil = none

	mu        sync.Mutex
	counts    counts                       // what follows is guarded by mu
	timings   *timings                     // nil before the first record
	endpoints map[netip.AddrPort]*endpoint // nil: they are not counted
	gone      bool

	asService, asHistogram place // guarded by all.mu
}

func (c *connMetrics) init(l Limits) {
	c.descs, c.bounds = newConnDescs(), newBounds()
	c.ports, c.listed = map[service.PortName]*portCounts{}, map[service.PortName][]service.Endpoint{}
	c.services, c.histograms, c.endpoints = newPlaces(l.Services), newPlaces(l.Histograms), newPlaces(l.Endpoints)
}

// Observer returns an observer that counts the records of one service port until Forget, and passes them on to next
// unless that is nil. It takes locks for a short time. A service port has one observer, with the next of the first
// call: its fronts of both families share it.
func (m *Metrics) Observer(name service.PortName, next record.Observer) record.Observer {
	c := &m.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.ports[name]
	if p == nil {
		p = &portCounts{all: c, name: name, label: name.Label(), next: next}
		if c.endpoints.max > 0 {
			p.endpoints = map[netip.AddrPort]*endpoint{}
		}
		c.ports[name] = p
	}
	return p
}

// Observe implements record.Observer.
func (p *portCounts) Observe(r *record.Record) {
	if p.next != nil {
		p.next.Observe(r)
	}
	if r.Portal == service.NodePort && r.OriginalDst.Addr().IsLoopback() && r.Outcome != record.OutcomeNotPortal {
		p.all.localhost.Add(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		p.all.late.observe(p, r)
		return
	}
	p.counts.observe(r)
	if p.timings == nil {
		p.timings = &timings{}
	}
	p.timings.observe(&p.all.bounds, r, &p.label)
	if p.endpoints != nil {
		p.observeEndpoints(r)
	}
}

func (l *late) observe(p *portCounts, r *record.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(p.name.Protocol).observe(&p.all.bounds, r, &p.label)
}

func (l *late) addTo(all *timings, p inet.Protocol) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all.add(l.of(p))
}

func (l *late) of(p inet.Protocol) *timings {
	if p == inet.UDP {
		return &l.udp
	}
	return &l.tcp
}

// Forget removes the series of a service port that is gone. Its connections that are still open are then counted only
// in the histograms of their protocol.
func (m *Metrics) Forget(name service.PortName) {
	m.kernel.forget(name)
	m.denied.forget(name)
	m.overflows.forget(name)
	c := &m.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.ports[name]
	if p == nil {
		return
	}
	delete(c.ports, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	past := c.past.of(name.Protocol)
	if p.asService.leave(&c.services, name.Namespace) {
		past.counts.add(&p.counts)
	}
	if p.timings != nil {
		past.keep(p.timings, p.asHistogram.leave(&c.histograms, name.Namespace))
	}
	for at, e := range p.endpoints {
		c.dropEndpoint(p, at, e)
	}
}

// ReplacePorts tells the state of all service ports, once it was synced.
func (m *Metrics) ReplacePorts(ports []*service.Port) {
	m.policies.replace(ports)
	c := &m.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.listed)
	for _, p := range ports {
		c.list(p)
	}
}

// UpdatePorts tells what has changed of service ports, once it was synced. Costs O(the changes).
func (m *Metrics) UpdatePorts(changes []service.Change) {
	m.policies.update(changes)
	c := &m.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range changes {
		if change.Port == nil {
			delete(c.listed, change.Name)
		} else {
			c.list(change.Port)
		}
	}
}

// list takes the endpoints of a service port, and drops those that are no longer among them.
func (c *connMetrics) list(now *service.Port) {
	c.listed[now.Name] = now.Endpoints
	if p := c.ports[now.Name]; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.prune(p)
	}
}
