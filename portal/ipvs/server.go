package ipvs

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
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
	mhPort     = 0x0010 // the scheduler mh looks at the client's port too, or all of a client's go to one endpoint
	ownFlags   = persistent | 0x0008 | 0x0010 | 0x0020
)

// The weights of endpoints: each has its share, or no new connections.
const (
	sharing = 1
	drained = 0
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
	conns  int // that are open, or were until lately
}

// want is the virtual server that a frontend should have, if any. Node ports are served at each address of the node but
// where a portal has that very frontend.
func (w *Writer) want(f service.Frontend) (server, bool) {
	p, ok := w.portals[f]
	if !ok && w.at.serves(f.Addr.Addr()) {
		p, ok = w.portals[anyAddress(f)]
	}
	if !ok || !spreads(p) || w.foreign[f] {
		return server{}, false
	}
	return w.server(p, w.at.forwarding(p)), true
}

// server is the virtual server of a portal.
func (o *Options) server(p portal.Portal, f portal.Forwarding) server {
	pool := p.Target.(portal.Spread).Pool
	s := server{settings: settings{scheduler: o.Scheduler}, weights: map[netip.AddrPort]int{}}
	if o.Scheduler == "mh" {
		s.flags |= mhPort
	}
	if pool.Affinity > 0 {
		s.flags |= persistent
		s.timeout = uint32((pool.Affinity + time.Second - 1) / time.Second)
	}
	used, _ := endpoints(f)
	for _, e := range used {
		s.weights[e.Addr] = sharing
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

// anyAddress is the frontend of node ports of that port.
func anyAddress(f service.Frontend) service.Frontend {
	any := netip.IPv4Unspecified()
	if f.Addr.Addr().Is6() {
		any = netip.IPv6Unspecified()
	}
	return service.Frontend{Addr: netip.AddrPortFrom(any, f.Addr.Port()), Protocol: f.Protocol}
}

// place is the host: its addresses, and those of them that node ports are served on.
type place struct {
	own       map[netip.Addr]bool
	nodePorts []netip.Addr

	masquerade portal.Masquerade
	podsKnown  bool // there are rules that tell pods from other clients
}

// forwarding is what a portal that spreads means on the host.
func (at place) forwarding(p portal.Portal) portal.Forwarding {
	return p.Target.(portal.Spread).Forwarding(p.Kind, at.masquerade, at.podsKnown)
}

// newPlace takes addresses in order.
func newPlace(addrs []netip.Addr, served []netip.Prefix) place {
	at := place{own: map[netip.Addr]bool{}}
	for _, a := range addrs {
		at.own[a] = true
		if a.IsGlobalUnicast() && within(a, served) {
			at.nodePorts = append(at.nodePorts, a)
		}
	}
	return at
}

// within tells whether an address is in any of the prefixes, of which none means all.
func within(a netip.Addr, prefixes []netip.Prefix) bool {
	return len(prefixes) == 0 || contained(a, prefixes)
}

func contained(a netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// serves tells whether node ports are served on an address.
func (at place) serves(a netip.Addr) bool {
	for _, served := range at.nodePorts {
		if a == served {
			return true
		}
	}
	return false
}

// servers are the frontends of virtual servers that a portal's frontend may have.
func (at place) servers(f service.Frontend) []service.Frontend {
	if !f.Addr.Addr().IsUnspecified() {
		return []service.Frontend{f}
	}
	var out []service.Frontend
	for _, a := range at.nodePorts {
		if a.Is6() == f.Addr.Addr().Is6() {
			out = append(out, service.Frontend{Addr: netip.AddrPortFrom(a, f.Addr.Port()), Protocol: f.Protocol})
		}
	}
	return out
}
