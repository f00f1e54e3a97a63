package userspace

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// target is that of portals of this availability, with a front at the proxy port; 0: there is none, and clients are
// refused.
func target(a service.Availability, proxyPort uint16) portal.Target {
	switch {
	case a == service.UnavailableHere:
		return portal.Drop{}
	case a == service.Unavailable || proxyPort == 0:
		return portal.Reject{}
	}
	return portal.Redirect{Port: proxyPort, Inside: a == service.AvailableInside}
}

// wanted tells whether any portal is to redirect to a front.
func wanted(p *service.Port, usable service.UsableEndpoints, family service.IPFamily) bool {
	return slices.ContainsFunc(p.ExposuresOf(family), func(x service.Exposure) bool {
		return p.Availability(usable, x.Kind) >= service.AvailableInside
	})
}
