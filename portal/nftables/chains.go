package nftables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
)

// rules generates the rules of one family. This file has the chains of every table. A packet passes the same rules at
// any number of portals, which are elements of sets and maps. At each change of a rule or of a verdict map the kernel
// validates all rules of the table and all verdict maps. So portals that need no chain of their own, the plain ones,
// are in maps of addresses and ports.
type rules struct {
	sets             sets
	family           nft.Family
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
func (r rules) fixed() []nft.Chain {
	nat := []nft.Rule{{nft.Jump(services)}}
	filter := []nft.Rule{{nft.NewConnection(), nft.Jump(refusals)}, {nft.NewConnection(), nft.Jump(clusterIPs)}}
	all := []nft.Chain{
		{Name: "nat-prerouting", Hook: nft.At("nat", "prerouting", -100), Rules: nat},
		{Name: "nat-output", Hook: nft.At("nat", "output", -100), Rules: r.output(nat)},
		r.postrouting(),
		{Name: "filter-input", Hook: nft.At("filter", "input", filterPriority), Rules: r.input()},
		{Name: "filter-forward", Hook: nft.At("filter", "forward", filterPriority), Rules: filter},
		{Name: "filter-output", Hook: nft.At("filter", "output", filterPriority), Rules: filter},
		{Name: services, Rules: append(r.lookups(r.sets.ips), r.toNode(nodePorts)...)},
		{Name: nodePorts, Rules: r.lookups(r.sets.nodePorts)},
		{Name: refusals, Rules: append(refusalRules(r.sets.ips), r.toNode(refusedNodes)...)},
		{Name: refusedNodes, Rules: refusalRules(r.sets.nodePorts)},
		{Name: clusterIPs, Rules: r.clusterIPRules()},
		{Name: guard, Rules: guardRules()},
		{Name: refuse, Rules: []nft.Rule{{nft.ProtocolIs(inet.TCP), nft.RejectTCP()}, {nft.Reject()}}},
		{Name: markClients, Rules: r.clientMarks()},
		{Name: masquerading, Rules: []nft.Rule{{nft.Unmark(r.masquerade.Mark)}, {nft.Masquerade()}}},
	}
	for _, s := range []scope{r.sets.ips, r.sets.nodePorts} {
		all = append(all,
			nft.Chain{Name: s.plain.Name, Rules: r.plainChain(s)},
			nft.Chain{Name: s.internal.Name, Rules: r.internalOnly(nft.Goto(s.internalChain()))},
			nft.Chain{Name: s.internalChain(), Rules: []nft.Rule{r.redirect(s.internal)}},
		)
	}
	if r.mark != 0 {
		at := nft.At("filter", "prerouting", -150)
		all = append(all, nft.Chain{Name: "divert", Hook: at, Rules: []nft.Rule{r.divert()}})
	}
	return all
}

// output is for packets of this host, except those that the daemon sends to endpoints: an endpoint that is a frontend
// would make the daemon dial itself without end. Packets that stay on the host do not pass nat-prerouting afterwards.
func (r rules) output(nat []nft.Rule) []nft.Rule {
	if r.dials == 0 {
		return nat
	}
	return append([]nft.Rule{{nft.Marked(r.dials), nft.Return()}}, nat...)
}

// internalChain is the name of the chain that redirects clients inside the cluster.
func (s scope) internalChain() string { return "redirect-inside-" + s.name }

// redirectable are the protocols that the daemon carries.
func redirectable() nft.Statement { return nft.ProtocolIs(inet.TCP, inet.UDP) }

// redirect sends flows to the daemon's port that a map has.
func (r rules) redirect(ports *nft.Set) nft.Rule {
	if r.proxyAddress.IsValid() {
		return nft.Rule{redirectable(), nft.DNATPort(r.proxyAddress, ports)}
	}
	return nft.Rule{redirectable(), nft.Redirect(ports)}
}

// lookups search the maps of portals that redirect or spread. They search all but the verdict map twice: when the
// target of a portal changes while a packet passes, the first lookup may be too early, and the second finds it. For the
// same reason chains with lookups of their own return when these find nothing. Every lookup of the verdict map costs a
// validation of all its elements.
func (r rules) lookups(s scope) []nft.Rule {
	twice := []nft.Rule{
		r.redirect(s.redirects),
		{nft.ElementOf(s.plain), nft.Jump(s.plain.Name)},
	}
	return slices.Concat(twice, []nft.Rule{{nft.VMap(s.chains)}}, twice)
}

func refusalRules(s scope) []nft.Rule {
	return []nft.Rule{{nft.ElementOf(s.refused), nft.Goto(refuse)}, {nft.ElementOf(s.dropped), nft.Drop()}}
}

// toNode sends packets for an address that serves node ports to a chain. Loopback does not: the daemon listens there.
func (r rules) toNode(chain string) []nft.Rule {
	here := nft.Rule{r.family.To(r.family.Loopback, true), nft.LocalAddress(false), nft.Goto(chain)}
	if r.allNodeAddresses {
		return []nft.Rule{here}
	}
	var out []nft.Rule
	for _, prefix := range r.nodeAddresses {
		out = append(out, append(r.within(prefix), here...))
	}
	return out
}

// within matches destinations in a prefix. One that holds all addresses needs no match.
func (r rules) within(p netip.Prefix) nft.Rule {
	if p.Bits() == 0 {
		return nil
	}
	return nft.Rule{r.family.To(p, false)}
}

// postrouting masquerades. It exists also when no portal spreads: packets of flows that were translated just before may
// still come.
func (r rules) postrouting() nft.Chain {
	return nft.Chain{Name: "nat-postrouting", Hook: nft.At("nat", "postrouting", 100), Rules: []nft.Rule{
		{nft.Marked(r.masquerade.Mark), nft.Goto(masquerading)},
		{nft.Translated(), nft.ElementOf(r.sets.hairpins), nft.Goto(masquerading)},
	}}
}

// input refuses new connections to the daemon's listeners that no portal redirected. It cannot accept those that were
// redirected on behalf of other tables. Client sockets of this host may use proxy ports: answers to them are not new
// connections. Each rule begins with the range of ports, so that other packets fail the first comparison.
func (r rules) input() []nft.Rule {
	return []nft.Rule{
		{nft.PortRange(inet.TCP, r.first, r.last), nft.TCPSYN(), nft.ElementOf(r.sets.proxyPorts), nft.Jump(guard)},
		{nft.PortRange(inet.UDP, r.first, r.last), nft.NewConnection(), nft.ElementOf(r.sets.proxyPorts), nft.Jump(guard)},
		{nft.NewConnection(), nft.Jump(refusals)},
	}
}

func guardRules() []nft.Rule {
	return []nft.Rule{
		{nft.Translated(), nft.Return()},
		{nft.ProtocolIs(inet.TCP), nft.RejectTCP()},
		{nft.ProtocolIs(inet.UDP), nft.Reject()},
	}
}

// clusterIPRules refuse ports that a Service does not have on its ClusterIP, and drop packets for unused ClusterIPs.
// Connections that began before the Service was there are not translated, whatever their port, until their conntrack
// entries are deleted: their packets are dropped, so that clients try again. What is refused never is confirmed.
func (r rules) clusterIPRules() []nft.Rule {
	ours := nft.ElementOf(r.sets.clusterIPs)
	out := []nft.Rule{{nft.Confirmed(), ours, nft.Drop()}, {ours, nft.Goto(refuse)}}
	for _, cidr := range r.serviceCIDRs {
		out = append(out, nft.Rule{r.family.To(cidr, false), nft.Drop()})
	}
	return out
}

// divert marks replies to clients' addresses that the daemon dials from, so that routing delivers them here. Listeners
// of other programs on the unspecified address do not match.
func (r rules) divert() nft.Rule {
	return slices.Concat(nft.Rule{redirectable()}, nft.TransparentSocket(), nft.Rule{nft.Mark(r.mark)})
}
