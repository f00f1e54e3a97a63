package userspace

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// usable are the endpoints of a service port in one family that new connections may go to, by service.Scope. Those of
// the node are left out where no frontend keeps to them.
type usable [2][]service.Endpoint

func usableOf(p *service.Port, ipv6 bool, exposures []service.Exposure) usable {
	u := usable{service.ClusterScope: p.Usable(ipv6, service.ClusterScope)}
	if slices.ContainsFunc(exposures, func(x service.Exposure) bool { return p.Scope(x.Kind) == service.NodeScope }) {
		u[service.NodeScope] = p.Usable(ipv6, service.NodeScope)
	}
	return u
}

// none tells that nobody anywhere serves.
func (u usable) none() bool { return len(u[service.ClusterScope])+len(u[service.NodeScope]) == 0 }

// target is where portals of that kind lead, with a front at the proxy port. A traffic policy that finds nobody on this
// node is silent, so that the client tries another; an external one is for clients from outside, and those from inside
// have the endpoints of the cluster.
func (u usable) target(p *service.Port, kind service.Kind, proxyPort uint16) portal.Target {
	switch {
	case u.none():
		return portal.Reject{}
	case len(u[p.Scope(kind)]) > 0:
		return portal.Redirect{Port: proxyPort}
	case kind == service.ClusterIP:
		return portal.Drop{}
	}
	return portal.Redirect{Port: proxyPort, Inside: true}
}

// wantsFront tells whether any portal is a redirect.
func (u usable) wantsFront(p *service.Port, exposures []service.Exposure) bool {
	return slices.ContainsFunc(exposures, func(x service.Exposure) bool { return redirects(u.target(p, x.Kind, 0)) })
}

func redirects(t portal.Target) bool {
	_, ok := t.(portal.Redirect)
	return ok
}

// exposures are the frontends of one family.
func exposures(p *service.Port, ipv6 bool) []service.Exposure {
	return ofFamily(p.Exposures, ipv6, func(x service.Exposure) bool { return x.Frontend.Addr.Addr().Is6() })
}

// endpoints are those of one family.
func endpoints(p *service.Port, ipv6 bool) []service.Endpoint {
	return ofFamily(p.Endpoints, ipv6, func(e service.Endpoint) bool { return e.Addr.Addr().Is6() })
}

// ofFamily is a part of what is sorted by address, IPv4 first, and shares its memory.
func ofFamily[T any](sorted []T, ipv6 bool, is6 func(T) bool) []T {
	first6 := slices.IndexFunc(sorted, is6)
	if first6 < 0 {
		first6 = len(sorted)
	}
	if ipv6 {
		return sorted[first6:]
	}
	return sorted[:first6:first6]
}
