package ipvs

import (
	"fmt"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/writer"
)

// ChainNames is a regular expression for the names of Chains behind the prefix and a -.
const ChainNames = `IPVS-[A-Z]+`

// newFlow matches the first packet of a flow.
const newFlow = "-m conntrack --ctstate NEW"

// Chains are the rules that a Writer needs, of both families. They look into sets, which exist once a Replace has the
// Rules write them.
//
//   - nat: flows to masquerade are marked before IPVS, and masqueraded after it.
//   - mangle: flows of clients that are not admitted are dropped, because IPVS takes this node's own before the
//     filter table; so are flows to an address that began before it was the node's (addAddresses), and what the
//     daemon sends to an endpoint that is a virtual server, because IPVS does not look at marks.
//   - filter: ports of the device's addresses without a virtual server are refused, because the node's own listeners
//     would answer there. Flows that began before are dropped, until their conntrack entries are deleted: what is
//     refused never is confirmed, and no redirect is asked about them. Answers are accepted, and so are flows to
//     virtual servers, for hosts that drop by default.
func Chains(o Options) (all []writer.Chain) {
	if err := o.complete(); err != nil {
		return nil
	}
	for _, family := range inet.Families() {
		all = append(all, ruleset{Options: o, family: family, names: newNames(o.Prefix)}.chains()...)
	}
	return all
}

func (r ruleset) chains() []writer.Chain {
	masquerading := r.chain("nat", "IPVS-MASQ", r.masquerades(), writer.Jump{Chain: "POSTROUTING"})
	masquerading.First = true // before any flow is marked
	newFlows := []writer.Jump{{Chain: "INPUT", Match: newFlow}, {Chain: "OUTPUT", Match: newFlow}}
	toServer := r.in(served, "dst,dst")
	all := []writer.Chain{
		r.chain("nat", "IPVS-MARK", r.marks(), writer.Jump{Chain: "PREROUTING"}, writer.Jump{Chain: "OUTPUT"}),
		r.chain("nat", "IPVS-CLUSTER", r.clusterMarks()),
		masquerading,
		r.chain("mangle", "IPVS-DROP", r.drops(), newFlows...),
		r.chain("mangle", "IPVS-INSIDE", r.outsiders()),
		r.chain("mangle", "IPVS-SOURCES", r.ranges()),
		r.chain("filter", "IPVS-FILTER", r.refusals(), newFlows...),
		r.chain("filter", "IPVS-FORWARD", []string{"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"},
			writer.Jump{Chain: "FORWARD"}),
		r.chain("filter", "IPVS-ACCEPT", []string{toServer + "-j ACCEPT"}, writer.Jump{Chain: "INPUT", Last: true}),
	}
	if r.Dials != 0 {
		dialled := writer.Jump{Chain: "OUTPUT", Match: fmt.Sprintf("-m mark --mark %#[1]x/%#[1]x", r.Dials)}
		all = append(all, r.chain("mangle", "IPVS-DIALS", []string{toServer + "-j DROP"}, dialled))
	}
	return all
}

// ruleset writes the rules of one family.
type ruleset struct {
	Options
	names
	family inet.Family
}

func (r ruleset) chain(table, name string, rules []string, from ...writer.Jump) writer.Chain {
	return writer.Chain{Family: r.family, Table: table, Name: r.prefixed(name), Rules: rules, From: from}
}

func (r ruleset) prefixed(name string) string { return r.prefix + "-" + name }

// in matches packets by a set.
func (r ruleset) in(id setID, parts string) string {
	return fmt.Sprintf("-m set --match-set %s %s ", r.set(id, r.family), parts)
}

const thisNode = "-m addrtype --src-type LOCAL "

func (r ruleset) mark() string {
	return fmt.Sprintf("-j MARK --set-xmark %#[1]x/%#[1]x", r.Masquerade.Mark)
}

// marks are for flows to virtual servers. This node's own clients are always marked: they dial a ClusterIP from the
// ClusterIP.
func (r ruleset) marks() []string {
	rules := []string{
		thisNode + r.in(served, "dst,dst") + r.mark(),
		r.in(clusterIPs, "dst,dst") + "-j " + r.prefixed("IPVS-CLUSTER"),
	}
	for _, id := range []setID{externalIPs, loadBalancers, nodePorts} {
		rules = append(rules, r.in(id, "dst,dst")+r.mark())
	}
	return rules
}

// clusterMarks are for clients of ClusterIPs.
func (r ruleset) clusterMarks() []string {
	if r.Masquerade.All {
		return []string{r.mark()}
	}
	return append(r.passPods(), r.mark())
}

// passPods return for pods.
func (r ruleset) passPods() []string {
	rules := []string{r.in(pods, "src") + "-j RETURN"}
	if r.LocalDetector.Interface != "" {
		rules = append(rules, "-i "+r.LocalDetector.Interface+" -j RETURN")
	}
	if r.LocalDetector.InterfacePrefix != "" {
		rules = append(rules, "-i "+r.LocalDetector.InterfacePrefix+"+ -j RETURN")
	}
	return rules
}

// masquerades are for flows that leave IPVS: from an endpoint to itself, or marked. The mark is cleared, so that no
// other rule finds it.
func (r ruleset) masquerades() []string {
	return []string{
		r.in(hairpins, "dst,dst,src") + "-j MASQUERADE --random-fully",
		fmt.Sprintf("-m mark ! --mark %#[1]x/%#[1]x -j RETURN", r.Masquerade.Mark),
		fmt.Sprintf("-j MARK --set-xmark %#x/0x0", r.Masquerade.Mark),
		"-j MASQUERADE --random-fully",
	}
}

func (r ruleset) drops() []string {
	return []string{
		"-p tcp -m conntrack --ctstatus CONFIRMED " + r.in(recent, "dst") + "-j DROP",
		r.in(insideOnly, "dst,dst") + "-j " + r.prefixed("IPVS-INSIDE"),
		r.in(restricted, "dst,dst") + "-j " + r.prefixed("IPVS-SOURCES"),
	}
}

func (r ruleset) outsiders() []string {
	rules := append([]string{thisNode + "-j RETURN"}, r.passPods()...)
	return append(rules, "-j DROP")
}

func (r ruleset) ranges() []string {
	return []string{
		r.in(sources, "dst,dst,src") + "-j RETURN",
		r.in(sourceHosts, "dst,dst,src") + "-j RETURN",
		"-j DROP",
	}
}

func (r ruleset) refusals() []string {
	unreachable := "icmp-port-unreachable"
	if r.family == inet.IPv6 {
		unreachable = "icmp6-port-unreachable"
	}
	unknown := r.in(addresses, "dst") + strings.Replace(r.in(served, "dst,dst"), "--match-set", "! --match-set", 1)
	return []string{
		unknown + "-m conntrack --ctstatus CONFIRMED -j DROP",
		"-p tcp " + unknown + "-j REJECT --reject-with tcp-reset",
		"-p udp " + unknown + "-j REJECT --reject-with " + unreachable,
	}
}
