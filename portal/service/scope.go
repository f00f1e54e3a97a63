package service

// Scope is which endpoints of a service port a client may be led to.
type Scope uint8

// The scopes: all of the cluster, or with a Local traffic policy those of this node.
const (
	ClusterScope Scope = iota
	NodeScope
)

// Scope returns the scope of a frontend of this kind. With an external one it is for clients outside the cluster: those
// inside may use all endpoints.
func (p *Port) Scope(k Kind) Scope {
	if k == ClusterIP && p.InternalLocal || k != ClusterIP && p.ExternalLocal {
		return NodeScope
	}
	return ClusterScope
}
