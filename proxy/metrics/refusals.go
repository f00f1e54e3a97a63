package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Refused are the packets to one service port that rules refused or dropped.
type Refused struct {
	Packets uint64 // since the daemon started, or the service port appeared

	// Of the last time that it refused clients:
	Last  uint64    // packets, of those
	Since time.Time // when it began to refuse; zero: it never did
	Until time.Time // when more packets were seen last; zero: there were none
}

// refusedMetrics count packets that rules refused.
type refusedMetrics struct {
	desc   *prometheus.Desc
	mu     sync.Mutex
	known  func(service.PortName) bool // nil: all are; what follows is guarded by mu
	read   func()
	places places
	ports  map[service.PortName]*refusedPort
	others map[inet.Protocol]uint64 // of those without series of their own
}

type refusedPort struct {
	Refused
	own bool // it has a series of its own
}

func (r *refusedMetrics) init(l Limits) {
	r.desc = prometheus.NewDesc("portald_refused_packets_total",
		"Packets of clients that rules refused or dropped, since the service port has no endpoint for them or is not "+
			"served. A client that tries again counts again.", []string{"service", "protocol"}, nil)
	r.places = newPlaces(l.Services)
	r.ports, r.others = map[service.PortName]*refusedPort{}, map[inet.Protocol]uint64{}
}

// WatchRefused exports refused packets. Read has them reported as of now, which it is called for at each scrape. Known
// tells which service ports there are: of others nothing is counted. It may be called once.
func (m *Metrics) WatchRefused(read func(), known func(service.PortName) bool) {
	m.denied.mu.Lock()
	m.denied.read, m.denied.known = read, known
	m.denied.mu.Unlock()
	m.registry.MustRegister(&m.denied)
}

// RefusedPackets counts packets to a service port that were refused, which began to refuse at that time. No packets: it
// begins now.
func (m *Metrics) RefusedPackets(name service.PortName, packets uint64, since time.Time) {
	r := &m.denied
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil && !r.known(name) {
		return
	}
	p := r.ports[name]
	if p == nil {
		p = &refusedPort{own: r.places.take(name.Namespace)}
		r.ports[name] = p
	}
	if p.Since.IsZero() || since.After(p.Since) && (p.Last == 0 || since.After(p.Until)) {
		p.Last, p.Since, p.Until = 0, since, time.Time{}
	}
	if packets == 0 {
		return
	}
	p.Packets += packets
	p.Last += packets
	p.Until = time.Now()
	if !p.own {
		r.others[name.Protocol] += packets
	}
}

// RefusedOf returns what was counted of a service port.
func (m *Metrics) RefusedOf(name service.PortName) Refused {
	m.denied.mu.Lock()
	defer m.denied.mu.Unlock()
	if p := m.denied.ports[name]; p != nil {
		return p.Refused
	}
	return Refused{}
}

func (r *refusedMetrics) forget(name service.PortName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.ports[name]; p != nil && p.own {
		r.places.give(name.Namespace)
	}
	delete(r.ports, name)
}

// Describe implements prometheus.Collector.
func (r *refusedMetrics) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect implements prometheus.Collector.
func (r *refusedMetrics) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	read := r.read
	r.mu.Unlock()
	read()
	type series struct{ service, protocol string }
	now := map[series]uint64{}
	r.mu.Lock()
	for name, p := range r.ports {
		if p.own {
			now[series{name.Label(), name.Protocol.String()}] = p.Packets
		}
	}
	for protocol, packets := range r.others {
		now[series{other, protocol.String()}] = packets
	}
	r.mu.Unlock()
	for s, packets := range now {
		to <- prometheus.MustNewConstMetric(r.desc, prometheus.CounterValue, float64(packets), s.service, s.protocol)
	}
}
