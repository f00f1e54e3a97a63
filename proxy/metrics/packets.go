package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Packets are those to one service port that had one fate: that rules refused them or dropped them, or that a receive
// buffer was full.
type Packets struct {
	Packets uint64 // since the daemon started, or the service port appeared

	// Of the last time that it happened:
	Last  uint64    // packets, of those
	Since time.Time // when it began; zero: it never did
	Until time.Time // when more packets were seen last; zero: there were none
}

// packetMetrics count packets of one fate by service port.
type packetMetrics struct {
	desc   *prometheus.Desc
	mu     sync.Mutex
	known  func(service.PortName) bool // nil: all are; what follows is guarded by mu
	read   func()                      // nil: they are reported without being asked for
	places places
	ports  map[service.PortName]*portPackets
	others map[inet.Protocol]uint64 // of those without series of their own
}

type portPackets struct {
	Packets
	own bool // it has a series of its own
}

func (r *packetMetrics) init(l Limits, name, help string) {
	r.desc = prometheus.NewDesc(name, help, []string{"service", "protocol"}, nil)
	r.places = newPlaces(l.Services)
	r.ports, r.others = map[service.PortName]*portPackets{}, map[inet.Protocol]uint64{}
}

// add counts packets, which are of the time that began then.
func (r *packetMetrics) add(name service.PortName, packets uint64, began func(*portPackets) time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil && !r.known(name) {
		return
	}
	p := r.ports[name]
	if p == nil {
		p = &portPackets{own: r.places.take(name.Namespace)}
		r.ports[name] = p
	}
	since := began(p)
	if p.Since.IsZero() || since.After(p.Since) && (p.Last == 0 || since.After(p.Until)) {
		p.Last, p.Since, p.Until = 0, since, time.Time{}
	}
	if packets == 0 {
		return
	}
	p.Packets.Packets += packets
	p.Last += packets
	p.Until = time.Now()
	if !p.own {
		r.others[name.Protocol] += packets
	}
}

func (r *packetMetrics) of(name service.PortName) Packets {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.ports[name]; p != nil {
		return p.Packets
	}
	return Packets{}
}

func (r *packetMetrics) forget(name service.PortName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.ports[name]; p != nil && p.own {
		r.places.give(name.Namespace)
	}
	delete(r.ports, name)
}

// Describe implements prometheus.Collector.
func (r *packetMetrics) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect implements prometheus.Collector.
func (r *packetMetrics) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	read := r.read
	r.mu.Unlock()
	if read != nil {
		read()
	}
	type series struct{ service, protocol string }
	now := map[series]uint64{}
	r.mu.Lock()
	for name, p := range r.ports {
		if p.own {
			now[series{name.Label(), name.Protocol.String()}] = p.Packets.Packets
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
