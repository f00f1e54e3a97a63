package portal

import (
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/service"
)

// Spread leads flows to the endpoints of a pool by the kernel alone: each new one to any of them, or with affinity to
// the one that its client had last. What it means for a portal beside its pool:
//
//   - A ClusterIP leads everyone to the endpoints of its scope. Clients that are not pods are masqueraded, where it is
//     known who is a pod, so that answers come back by way of this node; with Writers' option to masquerade all,
//     everyone is.
//   - Any other kind in ClusterScope leads everyone to the endpoints of the cluster, and masquerades everyone.
//   - Any other kind in NodeScope leads clients from outside to the endpoints of this node, under their own address, or
//     drops what they send where there is none. Clients inside the cluster (Inside) have the endpoints of the cluster,
//     pods under their own address, this node masqueraded.
//   - A LoadBalancerIP leads only clients that its pool admits, and drops what others send.
//   - An endpoint that dials its own Service and is led to itself is masqueraded, or it would answer itself.
type Spread struct {
	Pool  *Pool // shared by all portals of a service port in one family: two Spreads are the same if they share it
	Scope service.Scope
}

func (Spread) target() {}

// Pool is the endpoints of a service port in one address family, and who gets which. It does not change once made; a
// service port whose pool is equal to the one before keeps that one.
type Pool struct {
	Cluster      []Endpoint     // that the cluster offers; ordered by address
	Node         []Endpoint     // that this node offers to clients of NodeScope; ordered by address
	Affinity     time.Duration  // ClientIP affinity, sliding; 0 = none
	SourceRanges []netip.Prefix // who may use LoadBalancerIPs, of this family, as service.Merge has them; see Restricted
	Restricted   bool           // nobody but SourceRanges may
}

// Endpoint is where flows may go.
type Endpoint struct {
	Addr netip.AddrPort
	Here bool // on this node, or it is not known where: its own flows may pass here
}

// Equal tells whether both pools say the same.
func (p *Pool) Equal(o *Pool) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Affinity == o.Affinity && p.Restricted == o.Restricted && slices.Equal(p.Cluster, o.Cluster) &&
		slices.Equal(p.Node, o.Node) && slices.Equal(p.SourceRanges, o.SourceRanges)
}

// Of is the endpoints for clients of a scope.
func (p *Pool) Of(scope service.Scope) []Endpoint {
	if scope == service.NodeScope {
		return p.Node
	}
	return p.Cluster
}
