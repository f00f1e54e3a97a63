package iptables

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// A new flow to the port of one of our listeners is refused unless a portal redirected it. That comes before the
// rules of others, which might accept it. Redirected flows are accepted behind the rules of others, for hosts that
// drop by default. Both look the port up in one tree of chains, in which neighbouring ports are one range. Proxy
// ports are allocated without gaps, so that a rule or two match ten thousand; where there are gaps, a packet walks
// the ranges of one leaf and the rules that jump to leaves.

// leafPorts is how many ports a leaf has.
const leafPorts = 256

// guarded is the proxy ports that are open, in one family.
type guarded struct {
	tcp, udp ports
	chains   ruleset // nil since the last change
}

// ports is a set of ports.
type ports [1 << 16 / 64]uint64

func (g *guarded) set(p inet.Protocol, port uint16, open bool) {
	of, bit := &g.tcp, uint64(1)<<(port%64)
	if p == inet.UDP {
		of = &g.udp
	}
	g.chains = nil
	if of[port/64] &^= bit; open {
		of[port/64] |= bit
	}
}

func (s *ports) empty() bool { return *s == ports{} }

// ranges lists the set among n ports from first on, in order; both are multiples of 64.
func (s *ports) ranges(first, n int) (out []inet.PortRange) {
	for word := first / 64; word < (first+n)/64; word++ {
		for left := s[word]; left != 0; {
			from := bits.TrailingZeros64(left)
			length := bits.TrailingZeros64(^(left >> from))
			left &^= (1<<length - 1) << from
			out = joined(out, inet.PortRange{First: uint16(word*64 + from), Last: uint16(word*64 + from + length - 1)})
		}
	}
	return out
}

// joined adds the next span, which may continue the last one.
func joined(all []inet.PortRange, next inet.PortRange) []inet.PortRange {
	if last := len(all) - 1; last >= 0 && int(all[last].Last)+1 == int(next.First) {
		all[last].Last = next.Last
		return all
	}
	return append(all, next)
}

// guardChains are the chains in filter that guard proxy ports. The first one exists even while no port is open and
// nothing jumps to it: it tells our rules from rules of others with the same names (Look), and its match keeps
// connection tracking on, without which the kernel would stop translating open flows when the last portal is removed.
func (r renderer) guardChains(g *guarded) ruleset {
	if g.chains == nil {
		g.chains = ruleset{}
		g.chains.add(r.guard, atTop, fmt.Sprintf("-A %s -m conntrack --ctstate DNAT -j RETURN\n", r.guard))
		if !g.tcp.empty() || !g.udp.empty() {
			r.guardRules(g.chains)
			r.portRules(g.chains, inet.TCP, &g.tcp)
			r.portRules(g.chains, inet.UDP, &g.udp)
		}
	}
	return g.chains
}

// guardRules are the rules of the guard, accept and listener chains. Only SYNs and datagrams of new flows get there,
// so that a client socket of this host may use a proxy port and receive its answers.
func (r renderer) guardRules(to ruleset) {
	to.add(r.guard, atTop, fmt.Sprintf("-A %s -j %s\n", r.guard, r.proxyPorts))
	to.add(r.accept, atTop, fmt.Sprintf("-A %s -m conntrack --ctstate DNAT -j %s\n", r.accept, r.proxyPorts))
	to.add(r.listener, atMark, fmt.Sprintf("-A %[1]s -m conntrack --ctstate DNAT -j ACCEPT\n"+
		"-A %[1]s -p tcp -j REJECT --reject-with %[2]s\n-A %[1]s -p udp -j REJECT --reject-with %[3]s\n",
		r.listener, r.rejected[inet.TCP], r.rejected[inet.UDP]))
}

// portRules jump to the listener chain for the open ports of a protocol. A leaf with gaps has a chain of its own.
func (r renderer) portRules(to ruleset, p inet.Protocol, open *ports) {
	var direct []inet.PortRange
	var top strings.Builder
	write := func(b *strings.Builder, chain string, all []inet.PortRange, target string) {
		for _, s := range all {
			fmt.Fprintf(b, "-A %s -p %s -m %s --dport %s -j %s\n", chain, p, p, dports(s), target)
		}
	}
	for first := 0; first < 1<<16; first += leafPorts {
		ranges := open.ranges(first, leafPorts)
		if len(ranges) == 1 {
			direct = joined(direct, ranges[0])
			continue
		}
		if len(ranges) == 0 {
			continue
		}
		name := r.portLeaf(p, first)
		var leaf strings.Builder
		write(&leaf, name, ranges, r.listener)
		to.add(name, atLeaf, leaf.String())
		write(&top, r.proxyPorts, []inet.PortRange{{First: uint16(first), Last: uint16(first + leafPorts - 1)}}, name)
	}
	write(&top, r.proxyPorts, direct, r.listener)
	to.add(r.proxyPorts, atNodes, top.String())
}

func (c chains) portLeaf(p inet.Protocol, first int) string {
	return fmt.Sprintf("%s-PP-%s-%d", c.prefix, strings.ToUpper(p.String()), first)
}

// toProxyPorts match the first packets of flows to the range of proxy ports, for protocols with an open one.
func (r renderer) toProxyPorts(g *guarded) (out []string) {
	match := func(p inet.Protocol, first string) {
		out = append(out, fmt.Sprintf("-p %s -m %s --dport %s %s", p, p, dports(r.proxyRange), first))
	}
	if !g.tcp.empty() {
		match(inet.TCP, "--tcp-flags FIN,SYN,RST,ACK SYN ")
	}
	if !g.udp.empty() {
		match(inet.UDP, newFlow)
	}
	return out
}
