package metrics

import (
	"time"

	"github.com/portald/portald/portal/service"
)

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
	m.denied.add(name, packets, func(*portPackets) time.Time { return since })
}

// RefusedOf returns what was counted of a service port.
func (m *Metrics) RefusedOf(name service.PortName) Packets { return m.denied.of(name) }
