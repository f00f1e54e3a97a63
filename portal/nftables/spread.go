package nftables

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
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
	if scope == service.NodeScope {
		return pickNode
	}
	return pickCluster
}

// scope is that of the endpoints that a chain picks from.
func (r role) scope() service.Scope {
	if r == pickNode {
		return service.NodeScope
	}
	return service.ClusterScope
}

// chain generates a chain of a service port.
func (r rules) chain(id chainID, pool *portal.Pool) nft.Chain {
	if id.role == pickCluster || id.role == pickNode {
		return nft.Chain{Name: id.name(), Rules: r.pick(id, pool)}
	}
	return nft.Chain{Name: id.name(), Rules: r.entry(id, pool)}
}

// entry admits clients, and translates the flows of each class.
func (r rules) entry(id chainID, pool *portal.Pool) []nft.Rule {
	of := entryRoles[id.role]
	f := r.forwarding(of.kind, portal.Spread{Pool: pool, Scope: of.scope})
	out := r.outsiders(f)
	to := func(t portal.Translation) nft.Verdict { return nft.Goto(chainID{id.owner, pickFrom(t.Scope)}.name()) }
	switch {
	case of.kind == service.ClusterIP:
		return append(out, nft.Rule{nft.Jump(markClients)}, nft.Rule{to(f.Outside)})
	case f.Uniform():
		return append(out, nft.Rule{nft.Mark(r.masquerade.Mark)}, nft.Rule{to(f.Outside)})
	}
	out = append(out, r.translate(nft.LocalAddress(true), f.Node, to(f.Node)))
	for _, match := range r.pods(false) {
		out = append(out, r.translate(match, f.Pods, to(f.Pods)))
	}
	return append(out, nft.Rule{to(f.Outside)})
}

// translate sends the clients that match on.
func (r rules) translate(match nft.Statement, t portal.Translation, to nft.Verdict) nft.Rule {
	if t.Masquerade {
		return nft.Rule{match, nft.Mark(r.masquerade.Mark), to}
	}
	return nft.Rule{match, to}
}

// outsiders drops the flows of clients that are not admitted.
func (r rules) outsiders(f portal.Forwarding) []nft.Rule {
	if f.AdmitsAll() {
		return nil
	}
	var out nft.Rule
	if len(f.SourceRanges) > 0 {
		out = append(out, r.family.FromOutside(f.SourceRanges))
	}
	if f.AdmitsNode {
		out = append(out, nft.NotElementOf(r.sets.fromNode))
	}
	return []nft.Rule{append(out, nft.Drop())}
}
