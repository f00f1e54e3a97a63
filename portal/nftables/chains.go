package nftables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// rules generates the rules of one family. This file has the chains of every table. A packet passes the same rules at
// any number of portals, which are elements of sets and maps. At each change of a rule or of a verdict map the kernel
// validates all rules of the table and all verdict maps. So portals that need no chain of their own, the plain ones,
// are in maps of addresses and ports.
type rules struct {
	sets
	family
	first, last      uint16     // of the proxy ports
	proxyAddress     netip.Addr // of the listeners; invalid = the address of the incoming interface
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

// filterPriority is that of our filter chains, which run before those of most firewalls (0).
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
		{name: refuse, rules: []rule{{protocolIs(inet.TCP), reject{tcp: true}}, {reject{}}}},
		{name: markClients, rules: r.clientMarks()},
		{name: masquerading, rules: []rule{{unmark(r.masquerade.Mark)}, {masquerade{}}}},
	}
	for _, s := range []scope{r.ips, r.nodePorts} {
		all = append(all,
			chain{name: s.plain.name, rules: r.plainChain(s)},
			chain{name: s.internal.name, rules: r.internalOnly(goTo(s.internalChain()))},
			chain{name: s.internalChain(), rules: []rule{r.redirect(s.internal)}},
		)
	}
	if r.mark != 0 {
		all = append(all, chain{name: "divert", hook: &hook{"filter", "prerouting", -150}, rules: []rule{r.divert()}})
	}
	return all
}

// output is for packets of this host, except those that the daemon sends to endpoints: an endpoint that is a frontend
// would make the daemon dial itself without end. Packets that stay on the host do not pass nat-prerouting afterwards.
func (r rules) output(nat []rule) []rule {
	if r.dials == 0 {
		return nat
	}
	return append([]rule{{marked(r.dials), backToCaller()}}, nat...)
}

// internalChain is the name of the chain that redirects clients inside the cluster.
func (s scope) internalChain() string { return "redirect-inside-" + s.name }

// redirectable are the protocols that the daemon carries.
func redirectable() statement { return protocolIs(inet.TCP, inet.UDP) }

// redirect sends flows to the daemon's port that a map has.
func (r rules) redirect(ports *set) rule {
	if r.proxyAddress.IsValid() {
		return rule{redirectable(), dnatPort{r.proxyAddress, mapping{ports}}}
	}
	return rule{redirectable(), redirect{mapping{ports}}}
}

// lookups search the maps of portals that redirect or spread. They search all but the verdict map twice: when the
// target of a portal changes while a packet passes, the first lookup may be too early, and the second finds it. For the
// same reason chains with lookups of their own return when these find nothing. Every lookup of the verdict map costs a
// validation of all its elements.
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

// postrouting masquerades. It exists also when no portal spreads: packets of flows that were translated just before may
// still come.
func (r rules) postrouting() chain {
	return chain{name: "nat-postrouting", hook: &hook{"nat", "postrouting", 100}, rules: []rule{
		{marked(r.masquerade.Mark), goTo(masquerading)},
		{translated(), elementOf(r.hairpins), goTo(masquerading)},
	}}
}

// input refuses new connections to the daemon's listeners that no portal redirected. It cannot accept those that were
// redirected on behalf of other tables. Client sockets of this host may use proxy ports: answers to them are not new
// connections. Each rule begins with the range of ports, so that other packets fail the first comparison.
func (r rules) input() []rule {
	return []rule{
		{portRange{inet.TCP, r.first, r.last}, tcpSYN(), elementOf(r.proxyPorts), jump(guard)},
		{portRange{inet.UDP, r.first, r.last}, newConnection(), elementOf(r.proxyPorts), jump(guard)},
		{newConnection(), jump(refusals)},
	}
}

func guardRules() []rule {
	return []rule{
		{translated(), backToCaller()},
		{protocolIs(inet.TCP), reject{tcp: true}},
		{protocolIs(inet.UDP), reject{}},
	}
}

// clusterIPRules refuse ports that a Service does not have on its ClusterIP, and drop packets for unused ClusterIPs.
// Connections that began before the Service was there are not translated, whatever their port, until their conntrack
// entries are deleted: their packets are dropped, so that clients try again. What is refused never is confirmed.
func (r rules) clusterIPRules() []rule {
	ours := elementOf(r.sets.clusterIPs)
	out := []rule{{confirmed(), ours, drop()}, {ours, goTo(refuse)}}
	for _, cidr := range r.serviceCIDRs {
		out = append(out, rule{r.to(cidr, false), drop()})
	}
	return out
}

// divert marks replies to clients' addresses that the daemon dials from, so that routing delivers them here. Listeners
// of other programs on the unspecified address do not match.
func (r rules) divert() rule {
	return slices.Concat(rule{redirectable()}, transparentSocket(), rule{mark(r.mark)})
}
