package service

// Scope is which endpoints of a service port a client may be led to.
type Scope uint8

// The scopes: all of the cluster, or with a Local traffic policy those of this node.
const (
	ClusterScope Scope = iota
	NodeScope
)

// Scope is that of the clients of a frontend of this kind; with an external one, of those from outside the cluster:
// those from inside have all endpoints.
func (p *Port) Scope(k Kind) Scope {
	if k == ClusterIP && p.InternalLocal || k != ClusterIP && p.ExternalLocal {
		return NodeScope
	}
	return ClusterScope
}
