package nftables

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// forwarding is what s means for a frontend of a kind with the table's options.
func (r rules) forwarding(kind service.Kind, s portal.Spread) portal.Forwarding {
	return s.Forwarding(kind, r.masquerade, r.podsKnown)
}

// scopes are those whose endpoints clients get.
func scopes(f portal.Forwarding) []service.Scope {
	all := []service.Scope{f.Pods.Scope, f.Node.Scope, f.Outside.Scope}
	slices.Sort(all)
	return slices.Compact(all)
}

// entryOf is the role of the chain that a portal leads to.
func entryOf(p portal.Portal, to portal.Spread) role {
	kind := p.Kind
	if kind != service.ClusterIP && !to.Restricted(kind) {
		kind = service.ExternalIP // see frontends
	}
	return role(slices.Index(entryRoles[:], frontends{kind, to.Scope}))
}

// chainsOf are the chains that a portal needs, its entry chain first.
func (r rules) chainsOf(p portal.Portal, to portal.Spread) []chainID {
	all := []chainID{{p.Owner, entryOf(p, to)}}
	for _, scope := range scopes(r.forwarding(p.Kind, to)) {
		all = append(all, chainID{p.Owner, pickFrom(scope)})
	}
	return all
}

// pickFrom is the role of the chain that picks from the endpoints of a scope.
func pickFrom(scope service.Scope) role {
	return choose(scope == service.NodeScope, pickNode, pickCluster)
}

// scope is that of the endpoints that a chain picks from.
func (r role) scope() service.Scope {
	return choose(r == pickNode, service.NodeScope, service.ClusterScope)
}

// chain generates a chain of a service port.
func (r rules) chain(id chainID, pool *portal.Pool) chain {
	if id.role == pickCluster || id.role == pickNode {
		return chain{name: id.name(), rules: r.pick(id, pool)}
	}
	return chain{name: id.name(), rules: r.entry(id, pool)}
}

// entry admits clients, and translates the flows of each class.
func (r rules) entry(id chainID, pool *portal.Pool) []rule {
	of := entryRoles[id.role]
	f := r.forwarding(of.kind, portal.Spread{Pool: pool, Scope: of.scope})
	out := r.outsiders(f)
	to := func(t portal.Translation) verdict { return goTo(chainID{id.owner, pickFrom(t.Scope)}.name()) }
	switch {
	case of.kind == service.ClusterIP:
		return append(out, rule{jump(markClients)}, rule{to(f.Outside)})
	case f.Uniform():
		return append(out, rule{mark(r.masquerade.Mark)}, rule{to(f.Outside)})
	}
	out = append(out, r.translate(localAddress(true), f.Node, to(f.Node)))
	for _, match := range r.pods(false) {
		out = append(out, r.translate(match, f.Pods, to(f.Pods)))
	}
	return append(out, rule{to(f.Outside)})
}

// translate sends the clients that match on.
func (r rules) translate(match statement, t portal.Translation, to verdict) rule {
	if t.Masquerade {
		return rule{match, mark(r.masquerade.Mark), to}
	}
	return rule{match, to}
}

// outsiders drops the flows of clients that are not admitted.
func (r rules) outsiders(f portal.Forwarding) []rule {
	if f.AdmitsAll() {
		return nil
	}
	var out rule
	if len(f.SourceRanges) > 0 {
		out = append(out, r.fromOutside(f.SourceRanges))
	}
	if f.AdmitsNode {
		out = append(out, lookup{key: r.fromNode.key, not: true, in: r.fromNode})
	}
	return []rule{append(out, drop())}
}
