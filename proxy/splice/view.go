package splice

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal/service"
)

// View has the endpoints and frontends that a front serves at one moment. It is not changed after it was passed to it.
type View struct {
	Port      *service.Port      // never nil: scopes, source ranges, policy and all else that both families share
	Exposures []service.Exposure // the frontends whose traffic it takes, of one family
	Endpoints []service.Endpoint // those that UDP sessions may keep, and the names for records; sorted by address
}

// exposure finds the frontend that a client dialled.
func (v *View) exposure(dst netip.AddrPort) (service.Exposure, bool) {
	for _, x := range v.Exposures {
		at := x.Frontend.Addr
		if at == dst || x.Kind == service.NodePort && at.Port() == dst.Port() {
			return x, true
		}
	}
	return service.Exposure{}, false
}

// admits reports whether the source ranges allow the client to use that kind of frontend.
func (v *View) admits(client netip.Addr, kind service.Kind) bool {
	return kind != service.LoadBalancerIP || v.Port.Admits(client)
}

// endpoint finds an endpoint by its address, nil when the view does not have it.
func (v *View) endpoint(addr netip.AddrPort) *service.Endpoint {
	byAddr := func(e service.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) }
	i, ok := slices.BinarySearchFunc(v.Endpoints, addr, byAddr)
	if !ok {
		return nil
	}
	return &v.Endpoints[i]
}
