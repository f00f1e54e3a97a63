package service

import "slices"

// Offer is the endpoints of a service port in one family that new connections may go to, by Scope. Those of the node are
// left out where no frontend keeps to them.
type Offer [2][]Endpoint

// Offer is what the port has in one family.
func (p *Port) Offer(family IPFamily) Offer {
	o := Offer{ClusterScope: p.Usable(family, ClusterScope)}
	if slices.ContainsFunc(p.ExposuresOf(family), func(x Exposure) bool { return p.Scope(x.Kind) == NodeScope }) {
		o[NodeScope] = p.Usable(family, NodeScope)
	}
	return o
}

// Reach says which clients of a frontend are led to endpoints.
type Reach uint8

// The reaches.
const (
	ReachNobody Reach = iota // nobody serves: clients are refused
	ReachSilent              // a Local policy finds nobody on this node: silence, so that the client tries another
	ReachInside              // the same, but it is an external one: clients inside the cluster have the cluster's endpoints
	ReachAll
)

// Reach is that of the frontends of a kind.
func (p *Port) Reach(o Offer, k Kind) Reach {
	switch {
	case len(o[ClusterScope])+len(o[NodeScope]) == 0:
		return ReachNobody
	case len(o[p.Scope(k)]) > 0:
		return ReachAll
	case k == ClusterIP:
		return ReachSilent
	}
	return ReachInside
}

// ExposuresOf are the frontends of one family.
func (p *Port) ExposuresOf(family IPFamily) []Exposure {
	return ofFamily(p.Exposures, family, func(x Exposure) bool { return x.Frontend.Addr.Addr().Is6() })
}

// EndpointsOf are the endpoints of one family.
func (p *Port) EndpointsOf(family IPFamily) []Endpoint {
	return ofFamily(p.Endpoints, family, func(e Endpoint) bool { return e.Addr.Addr().Is6() })
}

// ofFamily is a part of what is sorted by address, IPv4 first, and shares its memory.
func ofFamily[T any](sorted []T, family IPFamily, is6 func(T) bool) []T {
	first6 := slices.IndexFunc(sorted, is6)
	if first6 < 0 {
		first6 = len(sorted)
	}
	if family == IPv6 {
		return sorted[first6:]
	}
	return sorted[:first6:first6]
}
