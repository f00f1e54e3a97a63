package portal

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
)

// Forwarding tells how a portal that spreads treats new flows: which clients are admitted, and how the flows of each
// class of clients are translated. Writers turn it into rules as it stands.
type Forwarding struct {
	Restricted   bool           // only clients in SourceRanges are admitted; flows of others are dropped
	SourceRanges []netip.Prefix // as service.Merge returns them
	AdmitsNode   bool           // so are clients that dial a frontend from its own address

	Pods    Translation // for clients known to be pods
	Node    Translation // for this node's own clients; where they look like pods too, either applies
	Outside Translation // for all other clients
}

// Translation is the NAT of one class of clients.
type Translation struct {
	Scope      service.Scope // whose endpoints these are
	Endpoints  []Endpoint    // possible destinations; none: flows are dropped
	Masquerade bool          // the source becomes this node's address, so that answers return by way of this node
}

// Forwarding returns what s means for a frontend of a kind. podsKnown tells whether pods can be told from other
// clients.
//
//   - A ClusterIP has the endpoints of its scope for everyone. Clients that are not pods are masqueraded if pods are
//     known, and everyone is if m says so.
//   - Any other kind in ClusterScope has the endpoints of the cluster for everyone, and everyone is masqueraded.
//   - Any other kind in NodeScope keeps clients' addresses: clients outside the cluster have the endpoints of this
//     node, pods those of the cluster. This node's own clients have those of the cluster too, masqueraded.
//   - A LoadBalancerIP admits only the source ranges of a restricted pool. A node that has the address itself dials it
//     from there: its own clients are admitted if those ranges hold any other address of the node.
func (s Spread) Forwarding(kind service.Kind, m Masquerade, podsKnown bool) Forwarding {
	to := func(scope service.Scope, masquerade bool) Translation {
		return Translation{Scope: scope, Endpoints: s.Pool.Of(scope), Masquerade: masquerade}
	}
	var f Forwarding
	switch {
	case kind == service.ClusterIP:
		f.Pods = to(s.Scope, m.All)
		f.Node = to(s.Scope, m.All || podsKnown)
		f.Outside = f.Node
	case s.Scope == service.ClusterScope:
		f.Pods = to(service.ClusterScope, true)
		f.Node, f.Outside = f.Pods, f.Pods
	default:
		f.Pods = to(service.ClusterScope, false)
		f.Node = to(service.ClusterScope, true)
		f.Outside = to(service.NodeScope, false)
	}
	if f.Restricted = s.Restricted(kind); f.Restricted {
		f.SourceRanges, f.AdmitsNode = service.Merge(s.Pool.SourceRanges), s.Pool.AdmitsNode
	}
	return f
}

// Restricted tells whether not every client may use a frontend of a kind.
func (s Spread) Restricted(kind service.Kind) bool {
	return kind == service.LoadBalancerIP && s.Pool.Restricted
}

// Uniform tells whether the flows of all clients are translated alike.
func (f Forwarding) Uniform() bool { return f.Pods.same(f.Node) && f.Node.same(f.Outside) }

// same compares translations of one pool.
func (t Translation) same(o Translation) bool {
	return t.Scope == o.Scope && t.Masquerade == o.Masquerade
}

// Forwards tells whether the flows of some clients reach endpoints.
func (f Forwarding) Forwards() bool {
	return len(f.Pods.Endpoints)+len(f.Node.Endpoints)+len(f.Outside.Endpoints) > 0
}

// Drops tells whether the flows of some clients are dropped.
func (f Forwarding) Drops() bool {
	return f.Restricted || len(f.Pods.Endpoints) == 0 || len(f.Node.Endpoints) == 0 || len(f.Outside.Endpoints) == 0
}

// AdmitsAll tells whether every client is admitted, be it by a source range that holds all addresses.
func (f Forwarding) AdmitsAll() bool {
	return !f.Restricted || len(f.SourceRanges) > 0 && f.SourceRanges[0].Bits() == 0
}
