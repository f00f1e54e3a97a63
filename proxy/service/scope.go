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

// Usable returns the endpoints of one family that new connections may go to: the ready ones, or when there are none,
// those that still serve while they terminate. Of the whole cluster's, topology hints leave out ready ones that are
// distant; they never leave out all.
func (p *Port) Usable(family IPFamily, scope Scope) []Endpoint {
	within := func(e Endpoint) bool { return FamilyOf(e.Addr.Addr()) == family && (scope == ClusterScope || e.Local) }
	pick := func(ok func(Endpoint) bool) []Endpoint {
		var out []Endpoint
		for _, e := range p.Endpoints {
			if within(e) && ok(e) {
				out = append(out, e)
			}
		}
		return out
	}
	near := func(e Endpoint) bool { return e.Ready && (scope == NodeScope || !e.Distant) }
	if ready := pick(near); len(ready) > 0 {
		return ready
	}
	return pick(func(e Endpoint) bool { return e.Serving && e.Terminating })
}

// ReadyHere is the number of addresses of this node whose endpoints are ready: what load balancers ask for.
func (p *Port) ReadyHere() int {
	n := 0
	for i, e := range p.Endpoints { // sorted by address: the ports of one stand side by side
		if e.Local && e.Ready && (i == 0 || p.Endpoints[i-1].Addr.Addr() != e.Addr.Addr()) {
			n++
		}
	}
	return n
}
