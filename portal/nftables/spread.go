package nftables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// plain tells whether a portal that spreads needs no chain of its own.
func plain(p portal.Portal, to portal.Spread) bool {
	external := p.Kind != service.ClusterIP
	return to.Pool.Affinity == 0 && !(external && to.Scope == service.NodeScope) && !restricted(p, to)
}

func restricted(p portal.Portal, to portal.Spread) bool {
	return p.Kind == service.LoadBalancerIP && to.Pool.Restricted
}

// entryRole is that of the chain that a portal leads to.
func entryRole(p portal.Portal, to portal.Spread) role {
	switch local := to.Scope == service.NodeScope; {
	case p.Kind == service.ClusterIP:
		return choose(local, entryNode, entryCluster)
	case restricted(p, to):
		return choose(local, entryFirewallLocal, entryFirewall)
	default:
		return choose(local, entryLocal, entryExternal)
	}
}

// chainsOf are the chains that a portal needs, its own first.
func chainsOf(p portal.Portal, to portal.Spread) []chainID {
	entry := entryRole(p, to)
	all := []chainID{{p.Owner, entry}}
	for _, pick := range entry.picks() {
		all = append(all, chainID{p.Owner, pick})
	}
	return all
}

// picks are the roles of chains that one of an entry's role leads to.
func (r role) picks() []role {
	switch r {
	case entryNode:
		return []role{pickNode}
	case entryLocal, entryFirewallLocal:
		return []role{pickCluster, pickNode}
	}
	return []role{pickCluster}
}

// scope is that of the endpoints that a chain picks from.
func (r role) scope() service.Scope {
	if r == pickNode {
		return service.NodeScope
	}
	return service.ClusterScope
}

// chain writes the chain of a service port.
func (r rules) chain(id chainID, pool *portal.Pool) chain {
	c := chain{name: id.name()}
	toPick := func(pick role) verdict { return goTo(chainID{id.owner, pick}.name()) }
	marking := rule{mark{r.masquerade.Mark}}
	if id.role == entryFirewall || id.role == entryFirewallLocal {
		c.rules = r.outsiders(pool)
	}
	switch id.role {
	case entryCluster:
		c.rules = append(c.rules, rule{jump(markClients)}, rule{toPick(pickCluster)})
	case entryNode:
		c.rules = append(c.rules, rule{jump(markClients)}, rule{toPick(pickNode)})
	case entryExternal, entryFirewall:
		c.rules = append(c.rules, marking, rule{toPick(pickCluster)})
	case entryLocal, entryFirewallLocal:
		c.rules = append(c.rules, rule{local{source: true}, mark{r.masquerade.Mark}, toPick(pickCluster)})
		for _, match := range r.pods(false) {
			c.rules = append(c.rules, rule{match, toPick(pickCluster)})
		}
		c.rules = append(c.rules, rule{toPick(pickNode)})
	case pickCluster, pickNode:
		c.rules = r.pick(id, pool)
	}
	return c
}

// outsiders drops what comes from none of the sources that a pool admits.
func (r rules) outsiders(pool *portal.Pool) []rule {
	ranges := slices.DeleteFunc(service.Merge(pool.SourceRanges), func(p netip.Prefix) bool { return !r.owns(p.Addr()) })
	switch {
	case len(ranges) == 0:
		return []rule{{drop()}}
	case ranges[0].Bits() == 0:
		return nil
	}
	return []rule{{outside(ranges), drop()}}
}

// pick leads to any endpoint, or the one that the client had.
func (r rules) pick(id chainID, pool *portal.Pool) []rule {
	some := pool.Of(id.role.scope())
	if len(some) == 0 {
		return []rule{{drop()}}
	}
	var addrs spread
	for _, e := range some {
		addrs = append(addrs, e.Addr)
	}
	var known, others []rule
	if pool.Affinity > 0 {
		clients := clientsID{id.owner}.set()
		for i, addr := range addrs {
			client := bound{clients, number(addr)}
			lead := rule{remember{client, pool.Affinity}, protocols{id.owner.Protocol}, spread{addr}}
			known = append(known, append(rule{client}, lead...))
			others = append(others, append(chances(len(addrs)-i), lead...))
		}
	}
	// Who is one too many to be remembered comes as far as this.
	return append(append(known, others...), rule{protocols{id.owner.Protocol}, addrs})
}

// chances match once in n times.
func chances(n int) rule {
	if n == 1 {
		return nil
	}
	return rule{chance{n}}
}
