package ipvs

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
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

// endpoints returns the endpoints of a virtual server, which knows no classes of clients: the endpoints for clients
// outside or, if there are none, for clients inside only.
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
