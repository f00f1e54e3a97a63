package userspace

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// led tells whether portals of an availability redirect to a front.
type led func(service.Availability) bool

// ledTo is that of a service port. Without proxy ports, a front has clients of TCP without an endpoint too, and resets
// them: the firewall of Windows would let them wait, and servers of the node that listen at all addresses would answer.
func ledTo(direct bool, name service.PortName) led {
	if direct && name.Protocol == service.TCP {
		return func(a service.Availability) bool { return a != service.UnavailableHere }
	}
	return func(a service.Availability) bool { return a >= service.AvailableInside }
}

// portalsOf are the portals of a service port in one family. Those that are led to a front redirect as said; nil: there
// is none.
func portalsOf(
	p *service.Port, family service.IPFamily, usable service.UsableEndpoints, leads led, to *portal.Redirect,
) (out []portal.Portal) {
	for _, x := range p.ExposuresOf(family) {
		goal := target(p.Availability(usable, x.Kind), leads, to)
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: goal})
	}
	return out
}

// target is that of portals of this availability. Without a front, clients are refused.
func target(a service.Availability, leads led, to *portal.Redirect) portal.Target {
	switch {
	case a == service.UnavailableHere:
		return portal.Drop{}
	case !leads(a) || to == nil:
		return portal.Reject{}
	}
	return portal.Redirect{Port: to.Port, Inside: a == service.AvailableInside}
}

// wanted tells whether any portal is to redirect to a front.
func wanted(p *service.Port, usable service.UsableEndpoints, family service.IPFamily, leads led) bool {
	return slices.ContainsFunc(p.ExposuresOf(family), func(x service.Exposure) bool {
		return leads(p.Availability(usable, x.Kind))
	})
}
