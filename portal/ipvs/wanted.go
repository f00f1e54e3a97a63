package ipvs

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// wanted is the virtual server that a frontend should have, if any. A NodePort has one at each address of the node
// where no other portal has that frontend.
func (w *Writer) wanted(f service.Frontend) (server, bool) {
	p, ok := w.portals[f]
	if !ok && w.node.servesNodePorts(f.Addr.Addr()) {
		p, ok = w.portals[anyAddress(f)]
	}
	if !ok || !spreads(p) || w.excluded[f] {
		return server{}, false
	}
	return w.server(p, w.node.forwarding(p)), true
}

// server is the virtual server of a portal.
func (o *Options) server(p portal.Portal, f portal.Forwarding) server {
	pool := p.Target.(portal.Spread).Pool
	s := server{settings: o.schedulerOf(pool.Algorithm), weights: map[netip.AddrPort]int{}}
	if pool.Affinity > 0 {
		s.flags |= persistent
		s.timeout = uint32((pool.Affinity + time.Second - 1) / time.Second)
	}
	used, _ := endpoints(f)
	for _, e := range used {
		s.weights[e.Addr] = weightServing
	}
	return s
}
