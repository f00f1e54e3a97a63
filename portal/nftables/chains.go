package nftables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// rules writes the rules of one family; those of chains that do not belong to a service port are here. What packets are
// asked does not grow with the number of portals: sets and maps hold those. The kernel walks all rules of a table, and all
// maps that lead to chains, at each change of a rule or of such a map. So the portals that need no chain of their own, the
// plain ones, are in maps that hold mere addresses and ports.
type rules struct {
	sets
	family
	first, last      uint16     // the daemon's ports
	address          netip.Addr // where they are, if one was chosen
	masquerade       portal.Masquerade
	serviceCIDRs     []netip.Prefix // of this family
	allNodeAddresses bool
	nodeAddresses    []netip.Prefix // of this family, unless all
	mark             uint32         // of replies to clients' addresses; 0 = endpoints see this node's
	dials            uint32         // the mark of the daemon's own; 0 = none
	inside           portal.Inside
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

// filterPriority is before that of most firewalls.
const filterPriority = -10

// fixed are the chains that do not depend on portals.
func (r rules) fixed() []chain {
	leading := []rule{{jump(services)}}
	through := []rule{{newFlow{}, jump(refusals)}, {newFlow{}, jump(clusterIPs)}}
	all := []chain{
		{name: "nat-prerouting", hook: &hook{"nat", "prerouting", -100}, rules: leading},
		{name: "nat-output", hook: &hook{"nat", "output", -100}, rules: r.output(leading)},
		r.postrouting(),
		{name: "filter-input", hook: &hook{"filter", "input", filterPriority}, rules: r.input()},
		{name: "filter-forward", hook: &hook{"filter", "forward", filterPriority}, rules: through},
		{name: "filter-output", hook: &hook{"filter", "output", filterPriority}, rules: through},
		{name: services, rules: append(r.lookups(r.ips), r.toNode(nodePorts)...)},
		{name: nodePorts, rules: r.lookups(r.nodePorts)},
		{name: refusals, rules: append(refusalRules(r.ips), r.toNode(refusedNodes)...)},
		{name: refusedNodes, rules: refusalRules(r.nodePorts)},
		{name: clusterIPs, rules: r.clusterIPRules()},
		{name: guard, rules: guardRules()},
		{name: refuse, rules: []rule{{protocols{service.TCP}, reject{tcp: true}}, {reject{}}}},
		{name: markClients, rules: r.clientMarks()},
		{name: masquerading, rules: []rule{{unmark{r.masquerade.Mark}}, {masquerade{}}}},
	}
	for _, s := range []scope{r.ips, r.nodePorts} {
		all = append(all,
			chain{name: s.plain.name, rules: r.plain(s)},
			chain{name: s.insiders.name, rules: r.insiders(goTo(s.redirectInside()), drop())},
			chain{name: s.redirectInside(), rules: []rule{{redirectable(), redirect{s.insiders, r.address}}}},
		)
	}
	if r.mark != 0 {
		all = append(all, chain{name: "divert", hook: &hook{"filter", "prerouting", -150}, rules: []rule{r.divert()}})
	}
	return all
}

// output leads what this host sends, but for what the daemon sends to endpoints: an endpoint that is a frontend would have it
// dial itself without end. What stays on the host is not asked again in prerouting.
func (r rules) output(leading []rule) []rule {
	if r.dials == 0 {
		return leading
	}
	return append([]rule{{marked{r.dials}, backToCaller()}}, leading...)
}

func (s scope) redirectInside() string { return "redirect-inside-" + s.name }

// redirectable are the protocols that the daemon carries.
func redirectable() protocols { return protocols{service.TCP, service.UDP} }

// lookups ask for a portal of any target that leads somewhere. They ask twice, but for chains, which the kernel looks
// through each time they are asked for: of a portal whose target changes while a packet passes, the second look finds it
// where the first came too early. So chains that look themselves return when they find nothing.
func (r rules) lookups(s scope) []rule {
	look := []rule{
		{redirectable(), redirect{s.redirects, r.address}},
		{member{s.plain}, jump(s.plain.name)},
	}
	return slices.Concat(look, []rule{{dispatch{s.chains}}}, look)
}

func refusalRules(s scope) []rule {
	return []rule{{member{s.refused}, goTo(refuse)}, {member{s.dropped}, drop()}}
}

// toNode goes on in a chain with what is for an address that serves node ports. Loopback is none: the daemon itself
// listens there.
func (r rules) toNode(chain string) []rule {
	here := rule{address{not: true, prefix: r.loopback}, local{}, goTo(chain)}
	if r.allNodeAddresses {
		return []rule{here}
	}
	var out []rule
	for _, prefix := range r.nodeAddresses {
		out = append(out, append(within(address{prefix: prefix}), here...))
	}
	return out
}

// within is a match, or none if the prefix has every address.
func within(a address) rule {
	if a.prefix.Bits() == 0 {
		return nil
	}
	return rule{a}
}

// postrouting stays when nothing is spread any more: flows that were led just before come by here.
func (r rules) postrouting() chain {
	return chain{name: "nat-postrouting", hook: &hook{"nat", "postrouting", 100}, rules: []rule{
		{marked{r.masquerade.Mark}, goTo(masquerading)},
		{translated{}, member{r.hairpins}, goTo(masquerading)},
	}}
}

// input refuses flows to ports of the daemon's listeners that no portal led there, which their first packets are asked for.
// That others let translated ones in, no rule here can have: each table of nftables has its own say. A client socket of this
// host may use a proxy port: answers to it are no new flow. Whatever is for no port of the range goes on at once.
func (r rules) input() []rule {
	return []rule{
		{toPorts{service.TCP, r.first, r.last}, opening{}, member{r.proxyPorts}, jump(guard)},
		{toPorts{service.UDP, r.first, r.last}, newFlow{}, member{r.proxyPorts}, jump(guard)},
		{newFlow{}, jump(refusals)},
	}
}

func guardRules() []rule {
	return []rule{
		{translated{}, backToCaller()},
		{protocols{service.TCP}, reject{tcp: true}},
		{protocols{service.UDP}, reject{}},
	}
}

// clusterIPRules refuse ports of ClusterIPs that no portal has, and drop what goes to ClusterIPs that nobody has.
func (r rules) clusterIPRules() []rule {
	out := []rule{{member{r.sets.clusterIPs}, goTo(refuse)}}
	for _, cidr := range r.serviceCIDRs {
		out = append(out, rule{address{prefix: cidr}, drop()})
	}
	return out
}

// divert marks replies to clients' addresses that the daemon dials from, so that routing delivers them here. A listener
// that is bound to no address, which others may have here, is none.
func (r rules) divert() rule { return rule{redirectable(), transparent{}, mark{r.mark}} }
