package userspace

import (
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// targets tells which portals of a service port redirect to a front, and where the others lead.
type targets struct {
	port   *service.Port
	direct bool // there are no proxy ports
	wait   bool // clients wait for an endpoint
}

// redirect tells whether portals of an availability do. A front has clients without an endpoint too where they wait for
// one. Without proxy ports it has TCP clients in any case, and resets them: the firewall of Windows would let them
// wait, and servers of the node that listen at all addresses would answer. No front has a protocol that this mode does
// not carry.
func (t targets) redirect(a service.Availability) bool {
	if !service.ModeUserspace.Carries(t.port.Name.Protocol) {
		return false
	}
	if t.wait || t.direct && t.port.Name.Protocol == inet.TCP {
		return a != service.UnavailableHere
	}
	return a >= service.AvailableInside
}

// availability says which clients of a kind of frontend have endpoints. Where clients wait for an endpoint, clients
// inside the cluster may expect one. Clients from outside to an external frontend with a Local policy may not: they are
// dropped as long as this node has none, so that they try another node.
func (t targets) availability(usable service.UsableEndpoints, k service.Kind) service.Availability {
	a := t.port.Availability(usable, k)
	switch {
	case !t.wait:
	case a == service.Unavailable && k != service.ClusterIP && t.port.Scope(k) == service.NodeScope:
		return service.AvailableInside
	case a == service.UnavailableHere:
		return service.Unavailable
	}
	return a
}

// portals returns the portals of one family. The portals of a front redirect to its listener; nil: there is no front.
func (t targets) portals(
	family inet.Family, usable service.UsableEndpoints, to *portal.Redirect,
) (out []portal.Portal) {
	for _, x := range t.port.ExposuresOf(family) {
		goal := t.target(t.availability(usable, x.Kind), to)
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: goal})
	}
	return out
}

// target returns the target of portals of this availability. Without a front, clients are refused.
func (t targets) target(a service.Availability, to *portal.Redirect) portal.Target {
	switch {
	case a == service.UnavailableHere:
		return portal.Drop{}
	case !t.redirect(a) || to == nil:
		return portal.Reject{}
	}
	return portal.Redirect{Port: to.Port, Inside: a == service.AvailableInside}
}

// wanted tells whether any portal is to redirect to a front.
func (t targets) wanted(usable service.UsableEndpoints, family inet.Family) bool {
	return slices.ContainsFunc(t.port.ExposuresOf(family), func(x service.Exposure) bool {
		return t.redirect(t.availability(usable, x.Kind))
	})
}
