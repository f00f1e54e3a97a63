package iptables

import (
	"fmt"
	"strings"

	"github.com/portald/portald/proxy/service"
)

// What spread portals need is in the way of every packet, and so comes only with the first.

// marks are the chains in nat that say who is to be seen with this node's address.
func (r renderer) marks() ruleset {
	all := ruleset{
		r.markMasq:    {atMark, fmt.Sprintf("-A %s -j MARK --set-xmark %#[2]x/%#[2]x\n", r.markMasq, r.masquerade.Mark)},
		r.postrouting: {atTop, r.postroutingRules()},
	}
	if _, one := strangers(r.pods); !one && len(r.pods) > 0 && !r.masquerade.All {
		all[r.markOutside] = chain{atEndpoint, r.outsideRules()}
	}
	return all
}

// outsideRules mark whom one rule cannot tell from pods.
func (r renderer) outsideRules() string {
	var b strings.Builder
	for _, c := range r.pods {
		fmt.Fprintf(&b, "-A %s %s%s-j RETURN\n", r.markOutside, c.source, c.device)
	}
	fmt.Fprintf(&b, "-A %s -j %s\n", r.markOutside, r.markMasq)
	return b.String()
}

// postroutingRules take the mark off again: a packet that is sent through a tunnel comes by here twice.
func (r renderer) postroutingRules() string {
	return fmt.Sprintf("-A %[1]s -m mark ! --mark %#[2]x/%#[2]x -j RETURN\n-A %[1]s -j MARK --set-xmark %#[2]x/0x0\n"+
		"-A %[1]s -j MASQUERADE%[3]s\n", r.postrouting, r.masquerade.Mark, r.known(randomFully))
}

// randomFully has flows that begin at once not get the same port, one of which the kernel would drop then. Commands have it
// from 1.6.2 on; kernels, from 3.14 on, and older ones pass it over.
const randomFully = " --random-fully"

// known leaves out of rules what the host's commands do not know.
func (r renderer) known(rules string) string {
	if r.plain {
		return strings.ReplaceAll(rules, randomFully, "")
	}
	return rules
}

// forwardRules let flows of spread portals through, for hosts whose FORWARD denies by default. What conntrack takes for
// invalid would pass untranslated, and make the peer reset the connection.
func (r renderer) forwardRules() string {
	invalid := ""
	if !r.liberal {
		invalid = fmt.Sprintf("-A %s -m conntrack --ctstate INVALID -j DROP\n", r.forward)
	}
	return invalid + fmt.Sprintf("-A %[1]s -m mark --mark %#[2]x/%#[2]x -j ACCEPT\n"+
		"-A %[1]s -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", r.forward, r.masquerade.Mark)
}

// martianRules drop what the jumps bring, which goes to the loopback network and comes from elsewhere.
func (r renderer) martianRules() string {
	return fmt.Sprintf("-A %s -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n", r.martian)
}

func (r renderer) fromElsewhere() string {
	return fmt.Sprintf("! -s %[1]s -d %[1]s ", r.loopback)
}

// guards are the chains in filter.
func (r renderer) guards() ruleset {
	all := ruleset{r.forward: {atTop, r.forwardRules()}}
	if r.ip == service.IPv4 { // nobody routes ::1
		all[r.martian] = chain{atTop, r.martianRules()}
	}
	return all
}
