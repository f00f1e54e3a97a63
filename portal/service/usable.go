package service

import "slices"
import "github.com/portald/portald/platform/inet"

// UsableEndpoints are the endpoints of a service port in one family that new connections may go to, by Scope. Those of
// the node are left out where no frontend is limited to them.
type UsableEndpoints [2][]Endpoint

// UsableEndpoints returns the usable endpoints of one family.
func (p *Port) UsableEndpoints(family inet.Family) UsableEndpoints {
	u := UsableEndpoints{ClusterScope: p.Usable(family, ClusterScope)}
	if slices.ContainsFunc(p.ExposuresOf(family), func(x Exposure) bool { return p.Scope(x.Kind) == NodeScope }) {
		u[NodeScope] = p.Usable(family, NodeScope)
	}
	return u
}

// Usable returns the endpoints of one family that new connections may go to: the ready ones, or if there are none,
// those that still serve while they terminate. In ClusterScope, topology hints leave out ready ones; they never leave
// out all.
func (p *Port) Usable(family inet.Family, scope Scope) []Endpoint {
	within := func(e Endpoint) bool {
		return inet.FamilyOf(e.Addr.Addr()) == family && (scope == ClusterScope || e.Local)
	}
	pick := func(ok func(Endpoint) bool) []Endpoint {
		var out []Endpoint
		for _, e := range p.Endpoints {
			if within(e) && ok(e) {
				out = append(out, e)
			}
		}
		return out
	}
	hinted := func(e Endpoint) bool { return e.Ready && (scope == NodeScope || !e.NotHinted) }
	if ready := pick(hinted); len(ready) > 0 {
		return ready
	}
	return pick(func(e Endpoint) bool { return e.Serving && e.Terminating })
}

// Availability says which clients of a frontend have an endpoint.
type Availability uint8

// The availabilities, in this order: from AvailableInside on, somebody has an endpoint.
const (
	// Unavailable: there is no endpoint, and clients are refused.
	Unavailable Availability = iota
	// UnavailableHere: a Local policy and no endpoint on this node. Packets are dropped, so that the client tries another
	// node.
	UnavailableHere
	// AvailableInside is the same for an external frontend: clients inside the cluster may use all endpoints.
	AvailableInside
	AvailableToAll
)

// Availability tells to which clients the frontends of a kind are available.
func (p *Port) Availability(u UsableEndpoints, k Kind) Availability {
	switch {
	case len(u[ClusterScope])+len(u[NodeScope]) == 0:
		return Unavailable
	case len(u[p.Scope(k)]) > 0:
		return AvailableToAll
	case k == ClusterIP:
		return UnavailableHere
	}
	return AvailableInside
}
