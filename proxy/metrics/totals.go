package metrics

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
)

// Totals are of the connections and sessions of one service port that have ended since the start.
type Totals struct {
	Ended, Failed            uint64 // Failed: with another outcome than ok
	FromClient, FromEndpoint uint64 // bytes
	FailedDials, Replays     uint64
	FirstByte                Counted // from the connect until the endpoint's first byte
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
	t := Totals{FromClient: p.counts.fromClient, FromEndpoint: p.counts.fromEndpoint,
		FailedDials: p.counts.dialFailed, Replays: p.counts.replays}
	if p.timings != nil {
		t.FirstByte = p.timings.firstByte.counted(p.all.bounds.firstByte)
	}
	for _, e := range p.counts.endings {
		t.Ended += e.n
		if !e.outcome.Well() {
			t.Failed += e.n
		}
	}
	return t
}

// EndpointTCP returns what the kernel told of TCP connections to endpoints of a service port that have ended. An
// endpoint of which it has not told is left out.
func (m *Metrics) EndpointTCP(name service.PortName) map[netip.AddrPort]TCPTotals {
	m.conns.mu.Lock()
	p := m.conns.ports[name]
	m.conns.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[netip.AddrPort]TCPTotals{}
	for at, e := range p.endpoints {
		if e.tcp.Connections > 0 {
			out[at] = e.tcp
		}
	}
	return out
}
