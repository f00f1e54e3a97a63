package service

import "slices"
import "github.com/portald/portald/platform/inet"

// Use is whether new connections of this node may go to an endpoint, or why not.
type Use string

// The uses.
const (
	Used        Use = "used"
	Terminating Use = "terminating" // its pod ends, and others are ready
	NotReady    Use = "not_ready"
	OtherNode   Use = "other_node"   // a Local policy leaves clients the endpoints of this node alone
	NotHinted   Use = "not_hinted"   // topology hints give it to clients of other nodes or zones
	OtherFamily Use = "other_family" // the Service has no frontend of its address family
)

// Uses returns the use of each endpoint, in their order.
func (p *Port) Uses() []Use {
	out := make([]Use, len(p.Endpoints))
	used, served := map[Endpoint]struct{}{}, map[inet.Family]bool{}
	for _, family := range inet.Families() {
		for _, scope := range p.scopes(family) {
			served[family] = true
			for _, e := range p.Usable(family, scope) {
				used[e] = struct{}{}
			}
		}
	}
	for i, e := range p.Endpoints {
		_, is := used[e]
		switch {
		case is:
			out[i] = Used
		case !served[inet.FamilyOf(e.Addr.Addr())]:
			out[i] = OtherFamily
		default:
			out[i] = e.unused()
		}
	}
	return out
}

// scopes returns those that some client of a family may use. A Local policy of an external frontend is for clients from
// outside: others may use all endpoints.
func (p *Port) scopes(family inet.Family) (out []Scope) {
	exposures := p.ExposuresOf(family)
	if slices.ContainsFunc(exposures, func(x Exposure) bool { return p.Scope(x.Kind) == NodeScope }) {
		out = append(out, NodeScope)
	}
	if slices.ContainsFunc(exposures, func(x Exposure) bool { return x.Kind != ClusterIP || !p.InternalLocal }) {
		out = append(out, ClusterScope)
	}
	return out
}

// unused is why an endpoint is not used.
func (e Endpoint) unused() Use {
	switch {
	case !e.Ready && e.Terminating:
		return Terminating
	case !e.Ready:
		return NotReady
	case e.NotHinted:
		return NotHinted
	}
	return OtherNode
}
