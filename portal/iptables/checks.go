package iptables

import (
	"fmt"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// Load balancers ask at health-check ports of Services whether this node has endpoints of them. The daemon answers
// there itself, and no portal leads there. On hosts that drop by default their flows are let in, before the rules of
// others as with kube-proxy: what a host refuses it often refuses by a last rule. They are in the chain that accepts
// redirected flows, which every version knows and removes.

// checks is the health-check ports that are open.
type checks struct {
	open   ports
	ranges []inet.PortRange
}

func (c *checks) set(port uint16, open bool) {
	c.open[port/64] &^= 1 << (port % 64)
	if open {
		c.open[port/64] |= 1 << (port % 64)
	}
}

// settle is for when all changes are set.
func (c *checks) settle() { c.ranges = c.open.ranges(0, 1<<16) }

// checkRules accept flows to the ports. Only new flows to their range walk these rules. Matches that a kernel may lack,
// such as one of many ports, are not worth it: it would take no rules at all then.
func (r renderer) checkRules(c *checks) string {
	var b strings.Builder
	for _, open := range c.ranges {
		fmt.Fprintf(&b, "-A %s -p tcp -m tcp --dport %s -j ACCEPT\n", r.accept, dports(open))
	}
	return b.String()
}

// checkJumps lead new flows to the range that holds all of these ports.
func (r renderer) checkJumps(c *checks) []jump {
	if len(c.ranges) == 0 {
		return nil
	}
	all := inet.PortRange{First: c.ranges[0].First, Last: c.ranges[len(c.ranges)-1].Last}
	return []jump{{
		chain: "INPUT", match: fmt.Sprintf("-p tcp -m tcp --dport %s %s", dports(all), newFlow), to: r.accept,
	}}
}
