package metrics

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// sameTime is how far apart datagrams are lost that count as lost at the same time.
const sameTime = time.Minute

// WatchReceiveBuffers exports the datagrams that found a receive buffer full. Known tells which service ports there
// are: of others nothing is counted. It may be called once.
func (m *Metrics) WatchReceiveBuffers(known func(service.PortName) bool) {
	m.overflows.mu.Lock()
	m.overflows.known = known
	m.overflows.mu.Unlock()
	m.registry.MustRegister(&m.overflows)
}

// ReceiveBufferFull counts datagrams to or from the endpoints of a service port that a receive buffer had no room for.
func (m *Metrics) ReceiveBufferFull(name service.PortName, datagrams uint64) {
	now := time.Now()
	m.overflows.add(name, datagrams, func(p *portPackets) time.Time {
		if now.Sub(p.Until) < sameTime {
			return p.Since
		}
		return now
	})
}

// ReceiveBufferFullOf returns what was counted of a service port.
func (m *Metrics) ReceiveBufferFullOf(name service.PortName) Packets { return m.overflows.of(name) }
