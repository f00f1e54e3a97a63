package metrics

import (
	"github.com/portald/portald/portal/service"
)

// Totals are of the connections and sessions of one service port that have ended since the start.
type Totals struct {
	Ended, Failed            uint64 // Failed: with another outcome than ok
	FromClient, FromEndpoint uint64 // bytes
}

// Totals returns the totals of a service port, whether it has series of its own or not.
func (m *Metrics) Totals(name service.PortName) Totals {
	m.conns.mu.Lock()
	p := m.conns.ports[name]
	m.conns.mu.Unlock()
	if p == nil {
		return Totals{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := Totals{FromClient: p.counts.fromClient, FromEndpoint: p.counts.fromEndpoint}
	for _, e := range p.counts.endings {
		t.Ended += e.n
		if !e.outcome.Well() {
			t.Failed += e.n
		}
	}
	return t
}
