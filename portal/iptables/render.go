package iptables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// maxComment is the longest comment the kernel keeps, in bytes.
const maxComment = 255

// portal returns the rules of a portal.
func (r renderer) portal(chain string, p portal.Portal) string {
	addr, port, proto := p.Frontend.Addr.Addr(), p.Frontend.Addr.Port(), p.Frontend.Protocol
	dst := ""
	if !addr.IsUnspecified() {
		dst = exactly("-d", addr)
	}
	var b strings.Builder
	for _, c := range r.clients(p) {
		fmt.Fprintf(&b, "-A %s %s%s%s-p %s -m comment --comment \"%s\" %s-m %s --dport %d -j %s\n",
			chain, c.source, dst, c.device, proto, comment(p), c.match, proto, port, r.target(p))
	}
	return b.String()
}

// inNAT and inFilter tell which tables have rules of a portal: both if only some clients are served.
func (r renderer) inNAT(p portal.Portal) bool {
	switch p.Target.(type) {
	case portal.Redirect:
		return true
	case portal.Spread:
		return r.forwarding(p).Forwards()
	}
	return false
}

func (r renderer) inFilter(p portal.Portal) bool {
	switch target := p.Target.(type) {
	case portal.Redirect:
		return target.Inside
	case portal.Spread:
		return r.forwarding(p).Drops()
	}
	return true
}

// clients are the matches of the clients that the rules of a portal in this table are for.
func (r renderer) clients(p portal.Portal) []clients {
	if redirect, ok := p.Target.(portal.Redirect); ok && redirect.Inside && !r.filter {
		return inside(r.pods)
	}
	return everybody
}

func (r renderer) target(p portal.Portal) string {
	switch target := p.Target.(type) {
	case portal.Redirect:
		if r.filter {
			return "DROP"
		}
		if r.address.IsValid() {
			return "DNAT --to-destination " + netip.AddrPortFrom(r.address, target.Port).String()
		}
		return "REDIRECT --to-ports " + strconv.Itoa(int(target.Port))
	case portal.Spread:
		if r.filter {
			return "DROP"
		}
		return r.entry(p)
	case portal.Reject:
		return "REJECT --reject-with " + r.rejected[p.Frontend.Protocol]
	case portal.Drop:
		return "DROP"
	}
	panic(fmt.Sprintf("portal %s has target %T", p.Frontend, p.Target)) // check lets none through
}

// comment names the owner of a portal, in characters that need no escape. It has a blank, so it is always quoted.
func comment(p portal.Portal) string {
	text := strings.Map(func(c rune) rune {
		if c > ' ' && c <= '~' && !strings.ContainsRune(`"'\`+"`", c) {
			return c
		}
		return '_'
	}, p.Owner.Label())
	kind := " " + p.Kind.String()
	return text[:min(len(text), maxComment-len(kind))] + kind
}

// chain returns the name of a chain and its content; it is not wanted when nothing jumps to it.
func (r renderer) chain(t *tree, id chainID) (name string, c chain, wanted bool) {
	switch id.level {
	case top:
		return r.services, chain{atTop, r.top(t)}, true
	case nodes:
		return r.nodes, chain{atNodes, r.nodePorts(t)}, t.nodes > 0
	case byAddress:
		return r.addresses, chain{atNodes, r.groups(t)}, len(t.blocks) > 0
	case group:
		return r.group(id.shard.group), chain{atGroup, r.leaves(t, id.shard.group)}, t.used[id.shard.group] != 0
	}
	name = r.leaf(id.shard)
	portals := slices.SortedFunc(maps.Values(t.leaves[id.shard]), func(a, b portal.Portal) int {
		return a.Frontend.Compare(b.Frontend)
	})
	var b strings.Builder
	for _, p := range portals {
		b.WriteString(r.portal(name, p))
	}
	return name, chain{atLeaf, b.String()}, len(portals) > 0
}

// top jumps to the portals by address, and then to the NodePorts.
func (r renderer) top(t *tree) string {
	var b strings.Builder
	for _, cover := range t.covers() {
		fmt.Fprintf(&b, "-A %s %s-j %s\n", r.services, within("-d", cover), r.addresses)
	}
	if t.nodes > 0 {
		for _, dst := range r.nodeDestinations() {
			fmt.Fprintf(&b, "-A %s %s-m addrtype --dst-type LOCAL -j %s\n", r.services, dst, r.nodes)
		}
	}
	return b.String()
}

// groups jumps to the groups in use.
func (r renderer) groups(t *tree) string {
	var b strings.Builder
	mask := r.bits(groups - 1)
	for n := range uint8(groups) {
		if t.used[n] != 0 {
			fmt.Fprintf(&b, "-A %s -d %s/%s -j %s\n", r.addresses, r.bits(uint16(n)), mask, r.group(n))
		}
	}
	return b.String()
}

// nodeDestinations are matches of the addresses that serve NodePorts, one of which is enough.
func (r renderer) nodeDestinations() []string {
	if r.allNodeAddresses {
		return []string{""}
	}
	var out []string
	for _, prefix := range r.nodeAddresses {
		out = append(out, within("-d", prefix))
	}
	return out
}

func (r renderer) leaves(t *tree, n uint8) string {
	var b strings.Builder
	name, mask := r.group(n), r.bits((groups-1)<<groupBits)
	for low := range uint8(groups) {
		if t.used[n]&(1<<low) != 0 {
			to := r.leaf(shard{group: n, leaf: low})
			fmt.Fprintf(&b, "-A %s -d %s/%s -j %s\n", name, r.bits(uint16(low)<<groupBits), mask, to)
		}
	}
	return b.String()
}

// nodePorts jumps to the ranges in use. Loopback addresses return first: listeners of the daemon serve NodePorts there.
func (r renderer) nodePorts(t *tree) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-A %s -d %s -j RETURN\n", r.nodes, r.loopback)
	for _, s := range t.nodePortShards() {
		fmt.Fprintf(&b, "-A %s -p %s -m %s --dport %s -j %s\n", r.nodes, s.protocol, s.protocol,
			dports(inet.PortRange{First: s.first, Last: s.first + nodePorts - 1}), r.leaf(s))
	}
	return b.String()
}

// divertRules mark the packet, and return to the rules of others.
func (r renderer) divertRules() string {
	return fmt.Sprintf("-A %s -j MARK --set-xmark %#x/%#x\n", r.divert, r.mark, r.mark)
}
