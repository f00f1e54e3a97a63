package iptables

import (
	"fmt"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// Every packet of the host passes the rules that portals that spread need. They are written with the first such portal.

// marks are the chains in nat that mark flows, and that masquerade them.
func (r renderer) marks() ruleset {
	all := ruleset{
		r.markMasq:    {atMark, fmt.Sprintf("-A %s -j MARK --set-xmark %#[2]x/%#[2]x\n", r.markMasq, r.masquerade.Mark)},
		r.postrouting: {atTop, r.postroutingRules()},
	}
	if _, one := outside(r.pods); !one && len(r.pods) > 0 && !r.masquerade.All {
		all[r.markOutside] = chain{atEndpoint, r.outsideRules()}
	}
	return all
}

// outsideRules mark clients that are not pods, where one rule cannot match them.
func (r renderer) outsideRules() string {
	var b strings.Builder
	for _, c := range r.pods {
		fmt.Fprintf(&b, "-A %s %s%s-j RETURN\n", r.markOutside, c.source, c.device)
	}
	fmt.Fprintf(&b, "-A %s -j %s\n", r.markOutside, r.markMasq)
	return b.String()
}

// postroutingRules clear the mark: a packet that is sent through a tunnel passes here twice.
func (r renderer) postroutingRules() string {
	return fmt.Sprintf("-A %[1]s -m mark ! --mark %#[2]x/%#[2]x -j RETURN\n-A %[1]s -j MARK --set-xmark %#[2]x/0x0\n"+
		"-A %[1]s -j MASQUERADE%[3]s\n", r.postrouting, r.masquerade.Mark, r.known(randomFully))
}

// randomFully keeps flows that begin at the same time from getting the same port, with which the kernel would drop one.
// Commands have it since 1.6.2; kernels since 3.14, and older ones ignore it.
const randomFully = " --random-fully"

// known removes from rules what the host's commands do not know.
func (r renderer) known(rules string) string {
	if r.plain {
		return strings.ReplaceAll(rules, randomFully, "")
	}
	return rules
}

// forwardRules accept flows of portals that spread, for hosts whose FORWARD drops by default. Packets that conntrack
// takes for invalid would pass untranslated, and make the peer reset the connection.
func (r renderer) forwardRules() string {
	invalid := ""
	if !r.liberal {
		invalid = fmt.Sprintf("-A %s -m conntrack --ctstate INVALID -j DROP\n", r.forward)
	}
	return invalid + fmt.Sprintf("-A %[1]s -m mark --mark %#[2]x/%#[2]x -j ACCEPT\n"+
		"-A %[1]s -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", r.forward, r.masquerade.Mark)
}

// martianRules drop packets to the loopback network that come from elsewhere, which the jumps match.
func (r renderer) martianRules() string {
	return fmt.Sprintf("-A %s -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n", r.martian)
}

func (r renderer) fromElsewhere() string {
	return fmt.Sprintf("! -s %[1]s -d %[1]s ", r.loopback)
}

// guards are the chains in filter.
func (r renderer) guards() ruleset {
	all := ruleset{r.forward: {atTop, r.forwardRules()}}
	if r.ip == inet.IPv4 { // ::1 is not routed
		all[r.martian] = chain{atTop, r.martianRules()}
	}
	return all
}
