package userspace

import (
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// led tells which portals of a service port redirect to a front.
type led struct {
	port   *service.Port
	direct bool // there are no proxy ports
	holds  bool // clients wait for an endpoint
}

// to tells whether portals of an availability do. A front has clients without an endpoint too where they wait for one.
// Without proxy ports it has those of TCP in any case, and resets them: the firewall of Windows would let them wait,
// and servers of the node that listen at all addresses would answer. No front has a protocol that this mode does not
// carry.
func (l led) to(a service.Availability) bool {
	if !service.ModeUserspace.Carries(l.port.Name.Protocol) {
		return false
	}
	if l.holds || l.direct && l.port.Name.Protocol == inet.TCP {
		return a != service.UnavailableHere
	}
	return a >= service.AvailableInside
}

// availability is that of the frontends of a kind for a front. Where clients wait for an endpoint, those inside the
// cluster have one in view. Those from outside to an external frontend with a Local policy have not: they are dropped
// as long as this node has none, so that they try another node.
func (l led) availability(usable service.UsableEndpoints, k service.Kind) service.Availability {
	a := l.port.Availability(usable, k)
	switch {
	case !l.holds:
	case a == service.Unavailable && k != service.ClusterIP && l.port.Scope(k) == service.NodeScope:
		return service.AvailableInside
	case a == service.UnavailableHere:
		return service.Unavailable
	}
	return a
}

// portals are those of one family. Those that are led to a front redirect as said; nil: there is none.
func (l led) portals(
	family inet.Family, usable service.UsableEndpoints, to *portal.Redirect,
) (out []portal.Portal) {
	for _, x := range l.port.ExposuresOf(family) {
		goal := l.target(l.availability(usable, x.Kind), to)
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: goal})
	}
	return out
}

// target is that of portals of this availability. Without a front, clients are refused.
func (l led) target(a service.Availability, to *portal.Redirect) portal.Target {
	switch {
	case a == service.UnavailableHere:
		return portal.Drop{}
	case !l.to(a) || to == nil:
		return portal.Reject{}
	}
	return portal.Redirect{Port: to.Port, Inside: a == service.AvailableInside}
}

// wanted tells whether any portal is to redirect to a front.
func (l led) wanted(usable service.UsableEndpoints, family inet.Family) bool {
	return slices.ContainsFunc(l.port.ExposuresOf(family), func(x service.Exposure) bool {
		return l.to(l.availability(usable, x.Kind))
	})
}
