package portaltest

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// offer is a Service under test: portals of all kinds, in both families and protocols, at one port.
type offer struct {
	name               string
	port               uint16 // node ports are 30000 more
	internal, external service.Scope
	pools              [2]*portal.Pool // by family; all protocols share them
}

// offer makes one whose pools have these endpoints, as shape changes them.
func (s *spreading) offer(name string, port uint16, endpoints string, shape ...func(*portal.Pool)) *offer {
	o := &offer{name: name, port: port}
	o.lead(s, endpoints, shape...)
	return o
}

// lead gives the offer other endpoints.
func (o *offer) lead(s *spreading, endpoints string, shape ...func(*portal.Pool)) {
	for i, family := range inet.Families() {
		o.pools[i] = s.pool(family, endpoints)
		for _, f := range shape {
			f(o.pools[i])
		}
	}
}

func kinds() []service.Kind {
	return []service.Kind{service.ClusterIP, service.NodePort, service.ExternalIP, service.LoadBalancerIP}
}

func internalKinds() []service.Kind { return kinds()[:1] }

func externalKinds() []service.Kind { return kinds()[1:] }

func protocols() []inet.Protocol { return []inet.Protocol{inet.TCP, inet.UDP} }

// portals are all of the offer.
func (o *offer) portals() []portal.Portal {
	var out []portal.Portal
	for _, proto := range protocols() {
		for i, family := range inet.Families() {
			for _, kind := range kinds() {
				out = append(out, portal.Portal{
					Frontend: o.frontend(kind, family, proto), Kind: kind, Owner: o.owner(proto),
					Target: portal.Spread{Pool: o.pools[i], Scope: o.scope(kind)},
				})
			}
		}
	}
	return out
}

// changes lead every portal of the offer where it leads now.
func (o *offer) changes() []portal.Change { return changesOf(o.portals()) }

func changesOf(portals []portal.Portal) []portal.Change {
	var out []portal.Change
	for i := range portals {
		out = append(out, portal.Change{Frontend: portals[i].Frontend, Portal: &portals[i]})
	}
	return out
}

func (o *offer) owner(proto inet.Protocol) service.PortName {
	return service.PortName{Namespace: "shop", Name: o.name, Port: "web", Protocol: proto}
}

func (o *offer) scope(kind service.Kind) service.Scope {
	if kind == service.ClusterIP {
		return o.internal
	}
	return o.external
}

func (o *offer) frontend(kind service.Kind, family inet.Family, proto inet.Protocol) service.Frontend {
	return service.Frontend{Addr: netip.AddrPortFrom(frontendHost(kind).Of(family), o.portOf(kind)), Protocol: proto}
}

func (o *offer) portOf(kind service.Kind) uint16 {
	if kind == service.NodePort {
		return 30000 + o.port
	}
	return o.port
}

// dial returns the address to dial for a frontend.
func (o *offer) dial(kind service.Kind, family inet.Family) string {
	host := frontendHost(kind)
	if kind == service.NodePort {
		host = addrs(NodeV4, NodeV6)
	}
	return netip.AddrPortFrom(host.Of(family), o.portOf(kind)).String()
}

func frontendHost(kind service.Kind) Addrs {
	switch kind {
	case service.ClusterIP:
		return addrs("10.96.0.1", "fd00:96::1")
	case service.NodePort:
		return addrs("0.0.0.0", "::")
	case service.ExternalIP:
		return addrs("198.51.100.1", "fd00:51::1")
	case service.LoadBalancerIP:
		return addrs("198.51.100.2", "fd00:51::2")
	}
	panic(fmt.Sprintf("no host for %s", kind))
}

// affinity binds clients.
func affinity(timeout time.Duration) func(*portal.Pool) {
	return func(pool *portal.Pool) { pool.Affinity = timeout }
}
