package layout

import (
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// forwarding applies the table's options to s, for a frontend of a kind.
func (r Rules) forwarding(kind service.Kind, s portal.Spread) portal.Forwarding {
	return s.Forwarding(kind, r.Masquerade, r.podsKnown)
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

// ChainsOf are the chains that a portal needs, its entry chain first.
func (r Rules) ChainsOf(p portal.Portal, to portal.Spread) []ChainID {
	all := []ChainID{{p.Owner, entryOf(p, to)}}
	for _, scope := range scopes(r.forwarding(p.Kind, to)) {
		all = append(all, ChainID{p.Owner, pickFrom(scope)})
	}
	return all
}

// pickFrom is the role of the chain that picks from the endpoints of a scope.
func pickFrom(scope service.Scope) role {
	if scope == service.NodeScope {
		return PickNode
	}
	return PickCluster
}

// scope says which endpoints a chain picks from.
func (r role) scope() service.Scope {
	if r == PickNode {
		return service.NodeScope
	}
	return service.ClusterScope
}

// Chain generates a chain of a service port.
func (r Rules) Chain(id ChainID, pool *portal.Pool) nft.Chain {
	if id.Role == PickCluster || id.Role == PickNode {
		return nft.Chain{Name: id.Name(), Rules: r.pick(id, pool)}
	}
	return nft.Chain{Name: id.Name(), Rules: r.entry(id, pool)}
}

// entry admits clients, and translates the flows of each class.
func (r Rules) entry(id ChainID, pool *portal.Pool) []nft.Rule {
	of := entryRoles[id.Role]
	f := r.forwarding(of.kind, portal.Spread{Pool: pool, Scope: of.scope})
	out := r.outsiders(f)
	to := func(t portal.Translation) nft.Verdict { return nft.Goto(ChainID{id.Owner, pickFrom(t.Scope)}.Name()) }
	switch {
	case of.kind == service.ClusterIP:
		return append(out, nft.Rule{nft.Jump(markClients)}, nft.Rule{to(f.Outside)})
	case f.Uniform():
		return append(out, nft.Rule{nft.Mark(r.Masquerade.Mark)}, nft.Rule{to(f.Outside)})
	}
	out = append(out, r.translate(nft.LocalAddress(true), f.Node, to(f.Node)))
	for _, match := range r.pods(false) {
		out = append(out, r.translate(match, f.Pods, to(f.Pods)))
	}
	return append(out, nft.Rule{to(f.Outside)})
}

// translate sends the clients that match on.
func (r Rules) translate(match nft.Statement, t portal.Translation, to nft.Verdict) nft.Rule {
	if t.Masquerade {
		return nft.Rule{match, nft.Mark(r.Masquerade.Mark), to}
	}
	return nft.Rule{match, to}
}

// outsiders drops the flows of clients that are not admitted.
func (r Rules) outsiders(f portal.Forwarding) []nft.Rule {
	if f.AdmitsAll() {
		return nil
	}
	var out nft.Rule
	if len(f.SourceRanges) > 0 {
		out = append(out, r.Family.FromOutside(f.SourceRanges))
	}
	if f.AdmitsNode {
		out = append(out, nft.NotElementOf(r.Sets.FromNode))
	}
	return []nft.Rule{append(out, nft.Drop())}
}
