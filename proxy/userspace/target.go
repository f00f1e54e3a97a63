package userspace

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// target is where portals of that reach lead, with a front at the proxy port; 0 is none, and refuses whom it would lead.
func target(r service.Availability, proxyPort uint16) portal.Target {
	switch {
	case r == service.UnavailableHere:
		return portal.Drop{}
	case r == service.Unavailable || proxyPort == 0:
		return portal.Reject{}
	}
	return portal.Redirect{Port: proxyPort, Inside: r == service.AvailableInside}
}

// wanted tells whether any portal is to lead to a front.
func wanted(p *service.Port, o service.UsableEndpoints, family service.IPFamily) bool {
	return slices.ContainsFunc(p.ExposuresOf(family), func(x service.Exposure) bool {
		return p.Availability(o, x.Kind) >= service.AvailableInside
	})
}
