package portal

import (
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// Spread sends new flows to the endpoints of a pool by the kernel alone: each to the one that the pool's algorithm
// chooses, or with affinity to the one that its client used last. Forwarding says which clients get which endpoints.
type Spread struct {
	Pool  *Pool // shared by all portals of a service port in one family: two Spreads are the same if they share it
	Scope service.Scope
}

func (Spread) target() {}

// Pool is the endpoints of a service port in one address family, and who may use them. It does not change once made; a
// service port whose pool is equal to the one before keeps that one.
type Pool struct {
	Cluster      []Endpoint        // for clients of ClusterScope; ordered by address
	Node         []Endpoint        // for clients of NodeScope; ordered by address
	Affinity     time.Duration     // ClientIP affinity, sliding; 0 = none
	Algorithm    service.Algorithm // one that the Writer Offers, for clients that are not bound; or its own way
	SourceRanges []netip.Prefix    // clients that may use LoadBalancerIPs, of this family; see Restricted
	Restricted   bool              // no others may
	AdmitsNode   bool              // some of SourceRanges hold this node: see Forwarding
}

// Endpoint is a possible destination of flows.
type Endpoint struct {
	Addr netip.AddrPort
	// MayHairpin is set where flows of the endpoint itself may pass this node: it is here, or its node is not known. One
	// that it sends to its own Service, and that is sent back to it, is masqueraded: otherwise it would answer itself.
	MayHairpin bool
}

// Equal tells whether both pools say the same.
func (p *Pool) Equal(o *Pool) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Affinity == o.Affinity && p.Algorithm == o.Algorithm && p.Restricted == o.Restricted &&
		p.AdmitsNode == o.AdmitsNode &&
		slices.Equal(p.Cluster, o.Cluster) && slices.Equal(p.Node, o.Node) && slices.Equal(p.SourceRanges, o.SourceRanges)
}

// Of returns the endpoints for clients of a scope.
func (p *Pool) Of(scope service.Scope) []Endpoint {
	if scope == service.NodeScope {
		return p.Node
	}
	return p.Cluster
}
