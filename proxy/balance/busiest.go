package balance

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
)

// Busiest is how many leases are open of the endpoint that has the most in this protocol: each has a local port towards
// it. An endpoint of several service ports is one. It looks at all endpoints, one service port after the other.
func (all *Endpoints) Busiest(protocol inet.Protocol) (most int) {
	open := map[netip.AddrPort]int{}
	for _, p := range all.of(protocol) {
		p.mu.Lock()
		for addr, e := range p.endpoints {
			if e.open > 0 {
				open[addr] += e.open
				most = max(most, open[addr])
			}
		}
		p.mu.Unlock()
	}
	return most
}

func (all *Endpoints) of(protocol inet.Protocol) (ports []*port) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, p := range all.ports {
		if name.Protocol == protocol {
			ports = append(ports, p)
		}
	}
	return ports
}
