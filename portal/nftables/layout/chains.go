// Package layout says what the table of one family consists of: its sets, the chains of every table, and the chains of
// service ports that spread by rules of their own. It knows neither the kernel nor what is written there already.
//
// A packet passes the same few rules however many portals there are: chains.go has these, by hook, and
// they look portals up in the sets of scope.go. Plain portals (plain.go) need nothing else; others have an entry chain,
// which tells clients apart (spread.go), and chains that pick an endpoint (pick.go). Names of chains are in names.go.
package layout

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/writer"
)

// Rules generates the rules of one family. This file has the chains of every table. A packet passes the same rules at
// any number of portals, which are elements of sets and maps. At each change of a rule or of a verdict map the kernel
// validates all rules of the table and all verdict maps. So portals that need no chain of their own, the plain ones,
// are in maps of addresses and ports.
type Rules struct {
	Sets             sets
	Family           nft.Family
	ProxyPorts       inet.PortRange
	ProxyAddress     netip.Addr // of the listeners; invalid = the address of the incoming interface
	Masquerade       portal.Masquerade
	serviceCIDRs     []netip.Prefix // of this family
	allNodeAddresses bool
	nodeAddresses    []netip.Prefix // of this family, unless all
	Mark             uint32         // of replies to clients' addresses; 0 = endpoints see this node's
	Dials            uint32         // mark of the daemon's own packets to endpoints; 0 = none
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
	Guard        = "guard"
	refuse       = "refuse"
	markClients  = "mark-clients"
	masquerading = "masquerading"
)

// filterPriority makes our filter chains run before the chains of most firewalls (0).
const filterPriority = -10

// Fixed are the chains of every table.
func (r Rules) Fixed() []nft.Chain {
	nat := []nft.Rule{{nft.Jump(services)}}
	filter := []nft.Rule{{nft.NewConnection(), nft.Jump(refusals)}, {nft.NewConnection(), nft.Jump(clusterIPs)}}
	all := []nft.Chain{
		{Name: "nat-prerouting", Hook: nft.At("nat", "prerouting", -100), Rules: nat},
		{Name: "nat-output", Hook: nft.At("nat", "output", -100), Rules: r.output(nat)},
		r.postrouting(),
		{Name: "filter-input", Hook: nft.At("filter", "input", filterPriority), Rules: r.input()},
		{Name: "filter-forward", Hook: nft.At("filter", "forward", filterPriority), Rules: filter},
		{Name: "filter-output", Hook: nft.At("filter", "output", filterPriority), Rules: filter},
		{Name: services, Rules: append(r.lookups(r.Sets.Ips), r.toNode(nodePorts)...)},
		{Name: nodePorts, Rules: r.lookups(r.Sets.NodePorts)},
		{Name: refusals, Rules: append(refusalRules(r.Sets.Ips), r.toNode(refusedNodes)...)},
		{Name: refusedNodes, Rules: refusalRules(r.Sets.NodePorts)},
		{Name: clusterIPs, Rules: r.clusterIPRules()},
		{Name: Guard, Rules: guardRules()},
		{Name: refuse, Rules: []nft.Rule{{nft.ProtocolIs(inet.TCP), nft.RejectTCP()}, {nft.Reject()}}},
		{Name: markClients, Rules: r.clientMarks()},
		{Name: masquerading, Rules: []nft.Rule{{nft.Unmark(r.Masquerade.Mark)}, {nft.Masquerade()}}},
	}
	for _, s := range []Scope{r.Sets.Ips, r.Sets.NodePorts} {
		all = append(all,
			nft.Chain{Name: s.Plain.Name, Rules: r.plainChain(s)},
			nft.Chain{Name: s.Internal.Name, Rules: r.internalOnly(nft.Goto(s.internalChain()), s)},
			nft.Chain{Name: s.internalChain(), Rules: []nft.Rule{r.redirect(s.Internal)}},
		)
	}
	if r.Mark != 0 {
		at := nft.At("filter", "prerouting", -150)
		all = append(all, nft.Chain{Name: "divert", Hook: at, Rules: []nft.Rule{r.divert()}})
	}
	return all
}

// output is for packets of this host, except those that the daemon sends to endpoints: an endpoint that is a frontend
// would make the daemon dial itself without end. Packets that stay on the host do not pass nat-prerouting afterwards.
func (r Rules) output(nat []nft.Rule) []nft.Rule {
	if r.Dials == 0 {
		return nat
	}
	return append([]nft.Rule{{nft.Marked(r.Dials), nft.Return()}}, nat...)
}

// internalChain is the name of the chain that redirects clients inside the cluster.
func (s Scope) internalChain() string { return "redirect-inside-" + s.Name }

// redirectable are the protocols that the daemon carries.
func redirectable() nft.Statement { return nft.ProtocolIs(inet.TCP, inet.UDP) }

// redirect sends flows to the daemon's port that a map has.
func (r Rules) redirect(ports *nft.Set) nft.Rule {
	if r.ProxyAddress.IsValid() {
		return nft.Rule{redirectable(), nft.DNATPort(r.ProxyAddress, ports)}
	}
	return nft.Rule{redirectable(), nft.Redirect(ports)}
}

// lookups search the maps of portals that redirect or spread. They search all but the verdict map twice: when the
// target of a portal changes while a packet passes, the first lookup may be too early, and the second finds it. For the
// same reason chains with lookups of their own return when these find nothing. Every lookup of the verdict map costs a
// validation of all its elements.
func (r Rules) lookups(s Scope) []nft.Rule {
	twice := []nft.Rule{
		r.redirect(s.Redirects),
		{nft.ElementOf(s.Plain), nft.Jump(s.Plain.Name)},
	}
	return slices.Concat(twice, []nft.Rule{{nft.VMap(s.Chains)}}, twice)
}

func refusalRules(s Scope) []nft.Rule {
	return []nft.Rule{{nft.ElementOf(s.Refused), nft.Goto(refuse)}, {nft.ElementOf(s.Dropped), nft.Drop()}}
}

// toNode sends packets for an address that serves node ports to a chain. Loopback does not: the daemon listens there.
func (r Rules) toNode(chain string) []nft.Rule {
	here := nft.Rule{r.Family.To(r.Family.Loopback, true), nft.LocalAddress(false), nft.Goto(chain)}
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
func (r Rules) within(p netip.Prefix) nft.Rule {
	if p.Bits() == 0 {
		return nil
	}
	return nft.Rule{r.Family.To(p, false)}
}

// postrouting masquerades. It exists also when no portal spreads: packets of flows that were translated just before may
// still come.
func (r Rules) postrouting() nft.Chain {
	return nft.Chain{Name: "nat-postrouting", Hook: nft.At("nat", "postrouting", 100), Rules: []nft.Rule{
		{nft.Marked(r.Masquerade.Mark), nft.Goto(masquerading)},
		{nft.Translated(), nft.ElementOf(r.Sets.Hairpins), nft.Goto(masquerading)},
	}}
}

// input refuses new connections to the daemon's listeners that no portal redirected. It cannot accept those that were
// redirected on behalf of other tables. Client sockets of this host may use proxy ports: answers to them are not new
// connections. Each rule begins with the range of ports, so that other packets fail the first comparison.
func (r Rules) input() []nft.Rule {
	return []nft.Rule{
		{nft.DPortIn(inet.TCP, r.ProxyPorts), nft.TCPSYN(), nft.ElementOf(r.Sets.ProxyPorts), nft.Jump(Guard)},
		{nft.DPortIn(inet.UDP, r.ProxyPorts), nft.NewConnection(), nft.ElementOf(r.Sets.ProxyPorts), nft.Jump(Guard)},
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
// entries are deleted: their packets are dropped, so that clients try again. A refused flow is never confirmed.
func (r Rules) clusterIPRules() []nft.Rule {
	ours := nft.ElementOf(r.Sets.ClusterIPs)
	out := []nft.Rule{{nft.Confirmed(), ours, nft.Drop()}, {ours, nft.Goto(refuse)}}
	for _, cidr := range r.serviceCIDRs {
		out = append(out, nft.Rule{r.Family.To(cidr, false), nft.Drop()})
	}
	return out
}

// divert marks replies to clients' addresses that the daemon dials from, so that routing delivers them here. Listeners
// of other programs on the unspecified address do not match.
func (r Rules) divert() nft.Rule {
	return slices.Concat(nft.Rule{redirectable()}, nft.TransparentSocket(), nft.Rule{nft.Mark(r.Mark)})
}

// Configure has Settings and ranges of ClusterIPs take effect.
func (r *Rules) Configure(s writer.Settings, serviceCIDRs []netip.Prefix) {
	r.serviceCIDRs = r.rangesOf(serviceCIDRs)
	r.inside, r.Mark = s.LocalDetector, s.Mark
	r.podsKnown = len(r.pods(false)) > 0
	r.allNodeAddresses = len(s.NodePortAddresses) == 0
	r.nodeAddresses = s.NodeAddresses(r.Family.IP)
}

// rangesOf are the family's, masked.
func (r Rules) rangesOf(all []netip.Prefix) (out []netip.Prefix) {
	for _, cidr := range all {
		if r.Family.Owns(cidr.Addr()) {
			out = append(out, cidr.Masked())
		}
	}
	return out
}
