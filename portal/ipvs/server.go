package ipvs

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// settings are what a virtual server is beside its frontend and its endpoints.
type settings struct {
	scheduler string
	flags     uint32
	timeout   uint32 // of persistence, in seconds
}

// Flags of a virtual server, the kernel's IP_VS_SVC_F_…
const (
	persistent = 0x0001 // a client has the endpoint that it had last
	fallback   = 0x0008 // mh and sh give the clients of an endpoint that drains to others, or they refuse them
	mhPort     = 0x0010 // the scheduler mh looks at the client's port too, or all of a client's go to one endpoint
	ownFlags   = persistent | fallback | mhPort | 0x0020
)

// The weights of endpoints: all that serve have the same share, and one that drains gets no new connections.
const (
	weightServing  = 1
	weightDraining = 0
)

// server is a virtual server as it is wanted, or as the kernel holds it.
type server struct {
	settings
	weights map[netip.AddrPort]int
}

// destination is an endpoint as the kernel knows it.
type destination struct {
	addr   netip.AddrPort
	weight int
	conns  int // active and inactive ones
}

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

// endpoints are those of a virtual server, which knows no classes of clients: those of clients outside, or if there are
// none, those of clients inside only.
func endpoints(f portal.Forwarding) (used []portal.Endpoint, insideOnly bool) {
	if len(f.Outside.Endpoints) > 0 {
		return f.Outside.Endpoints, false
	}
	return f.Pods.Endpoints, len(f.Pods.Endpoints) > 0
}

func spreads(p portal.Portal) bool {
	_, ok := p.Target.(portal.Spread)
	return ok
}

// anyAddress is the frontend of the NodePort with the port of a frontend.
func anyAddress(f service.Frontend) service.Frontend {
	addr := inet.FamilyOf(f.Addr.Addr()).Unspecified()
	return service.Frontend{Addr: netip.AddrPortFrom(addr, f.Addr.Port()), Protocol: f.Protocol}
}
