package nftables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// rules writes the rules of one family. This file has the chains that every table has. The number of rules that a
// packet goes through does not depend on the number of portals, which are elements of sets and maps. The kernel
// validates all rules of a table and all verdict maps at each change of a rule or of such a map, so that plain portals,
// which need no chain of their own, are in maps of addresses and ports.
type rules struct {
	sets
	family
	first, last      uint16     // of the proxy ports
	proxyAddress     netip.Addr // of the daemon's listeners; not valid: that of the interface a packet came in by
	masquerade       portal.Masquerade
	serviceCIDRs     []netip.Prefix // of this family
	allNodeAddresses bool
	nodeAddresses    []netip.Prefix // of this family, unless all
	mark             uint32         // of replies to clients' addresses; 0 = endpoints see this node's
	dials            uint32         // the mark of what the daemon itself sends to endpoints; 0 = none
	inside           portal.LocalDetector
	podsKnown        bool // there are matches for pods of this family
}

// Names of chains.
const (
	services     = "services"
	nodePorts    = "nodeports"
	refusals     = "refusals"
	refusedNodes = "refused-nodeports"
	clusterIPs   = "cluster-ips-check"
	guard        = "guard"
	refuse       = "refuse"
	markClients  = "mark-clients"
	masquerading = "masquerading"
)

// filterPriority is before most firewalls' chains, which have 0.
const filterPriority = -10

// fixed are the chains of every table.
func (r rules) fixed() []chain {
	nat := []rule{{jump(services)}}
	filter := []rule{{newConnection(), jump(refusals)}, {newConnection(), jump(clusterIPs)}}
	all := []chain{
		{name: "nat-prerouting", hook: &hook{"nat", "prerouting", -100}, rules: nat},
		{name: "nat-output", hook: &hook{"nat", "output", -100}, rules: r.output(nat)},
		r.postrouting(),
		{name: "filter-input", hook: &hook{"filter", "input", filterPriority}, rules: r.input()},
		{name: "filter-forward", hook: &hook{"filter", "forward", filterPriority}, rules: filter},
		{name: "filter-output", hook: &hook{"filter", "output", filterPriority}, rules: filter},
		{name: services, rules: append(r.lookups(r.ips), r.toNode(nodePorts)...)},
		{name: nodePorts, rules: r.lookups(r.nodePorts)},
		{name: refusals, rules: append(refusalRules(r.ips), r.toNode(refusedNodes)...)},
		{name: refusedNodes, rules: refusalRules(r.nodePorts)},
		{name: clusterIPs, rules: r.clusterIPRules()},
		{name: guard, rules: guardRules()},
		{name: refuse, rules: []rule{{protocolIs(service.TCP), reject{tcp: true}}, {reject{}}}},
		{name: markClients, rules: r.clientMarks()},
		{name: masquerading, rules: []rule{{unmark(r.masquerade.Mark)}, {masquerade{}}}},
	}
	for _, s := range []scope{r.ips, r.nodePorts} {
		all = append(all,
			chain{name: s.plain.name, rules: r.plainChain(s)},
			chain{name: s.insiders.name, rules: r.insiders(goTo(s.redirectInside()), drop())},
			chain{name: s.redirectInside(), rules: []rule{r.redirect(s.insiders)}},
		)
	}
	if r.mark != 0 {
		all = append(all, chain{name: "divert", hook: &hook{"filter", "prerouting", -150}, rules: []rule{r.divert()}})
	}
	return all
}

// output spares what the daemon sends to endpoints: if an endpoint is a frontend, the daemon would dial itself without
// end. Packets that stay on the host do not go through this again in prerouting.
func (r rules) output(nat []rule) []rule {
	if r.dials == 0 {
		return nat
	}
	return append([]rule{{marked(r.dials), backToCaller()}}, nat...)
}

func (s scope) redirectInside() string { return "redirect-inside-" + s.name }

// redirectable are the protocols that the daemon carries.
func redirectable() statement { return protocolIs(service.TCP, service.UDP) }

// redirect sends flows to the daemon's port that a map has.
func (r rules) redirect(ports *set) rule {
	if r.proxyAddress.IsValid() {
		return rule{redirectable(), dnatPort{r.proxyAddress, mapping{ports}}}
	}
	return rule{redirectable(), redirect{mapping{ports}}}
}

// lookups look for a portal that redirects or spreads, in every map but that of chains twice: if its target changes
// while a packet passes, the second lookup finds what the first was too early for. So chains with lookups of their own
// return when these find nothing. The map of chains has one lookup, for each of which the kernel validates all of it.
func (r rules) lookups(s scope) []rule {
	twice := []rule{
		r.redirect(s.redirects),
		{elementOf(s.plain), jump(s.plain.name)},
	}
	return slices.Concat(twice, []rule{{vmap{s.chains}}}, twice)
}

func refusalRules(s scope) []rule {
	return []rule{{elementOf(s.refused), goTo(refuse)}, {elementOf(s.dropped), drop()}}
}

// toNode sends packets for an address that serves node ports to a chain. Loopback does not: the daemon listens there.
func (r rules) toNode(chain string) []rule {
	here := rule{r.to(r.loopback, true), localAddress(false), goTo(chain)}
	if r.allNodeAddresses {
		return []rule{here}
	}
	var out []rule
	for _, prefix := range r.nodeAddresses {
		out = append(out, append(r.within(prefix), here...))
	}
	return out
}

// within matches destinations in a prefix. One that holds all addresses needs no match.
func (r rules) within(p netip.Prefix) rule {
	if p.Bits() == 0 {
		return nil
	}
	return rule{r.to(p, false)}
}

// postrouting does not depend on whether any portal spreads: flows that were translated just before come by here.
func (r rules) postrouting() chain {
	return chain{name: "nat-postrouting", hook: &hook{"nat", "postrouting", 100}, rules: []rule{
		{marked(r.masquerade.Mark), goTo(masquerading)},
		{translated(), elementOf(r.hairpins), goTo(masquerading)},
	}}
}

// input refuses new connections to ports of the daemon's listeners that were not translated by a portal. It cannot
// accept those that were: chains of other tables decide too. A client socket of this host may use a proxy port, since
// answers to it begin no connection. The range of ports comes first in each rule, so that other packets cost little.
func (r rules) input() []rule {
	return []rule{
		{portRange{service.TCP, r.first, r.last}, tcpSYN(), elementOf(r.proxyPorts), jump(guard)},
		{portRange{service.UDP, r.first, r.last}, newConnection(), elementOf(r.proxyPorts), jump(guard)},
		{newConnection(), jump(refusals)},
	}
}

func guardRules() []rule {
	return []rule{
		{translated(), backToCaller()},
		{protocolIs(service.TCP), reject{tcp: true}},
		{protocolIs(service.UDP), reject{}},
	}
}

// clusterIPRules refuse ports of ClusterIPs that no portal has, and drop packets for ClusterIPs that no Service has.
func (r rules) clusterIPRules() []rule {
	out := []rule{{elementOf(r.sets.clusterIPs), goTo(refuse)}}
	for _, cidr := range r.serviceCIDRs {
		out = append(out, rule{r.to(cidr, false), drop()})
	}
	return out
}

// divert marks replies to clients' addresses that the daemon dials from, so that routing delivers them here. Listeners
// of other programs that are bound to no address do not count.
func (r rules) divert() rule {
	return slices.Concat(rule{redirectable()}, transparentSocket(), rule{mark(r.mark)})
}
