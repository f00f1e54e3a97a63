package userspace

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// portalsOf are the portals of a service port in one family. They redirect as said; nil: there is no front.
func portalsOf(
	p *service.Port, family service.IPFamily, usable service.UsableEndpoints, to *portal.Redirect,
) (out []portal.Portal) {
	for _, x := range p.ExposuresOf(family) {
		leads := target(p.Availability(usable, x.Kind), to)
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: leads})
	}
	return out
}

// target is that of portals of this availability. Without a front, clients are refused.
func target(a service.Availability, to *portal.Redirect) portal.Target {
	switch {
	case a == service.UnavailableHere:
		return portal.Drop{}
	case a == service.Unavailable || to == nil:
		return portal.Reject{}
	}
	return portal.Redirect{Port: to.Port, Inside: a == service.AvailableInside}
}

// wanted tells whether any portal is to redirect to a front.
func wanted(p *service.Port, usable service.UsableEndpoints, family service.IPFamily) bool {
	return slices.ContainsFunc(p.ExposuresOf(family), func(x service.Exposure) bool {
		return p.Availability(usable, x.Kind) >= service.AvailableInside
	})
}
