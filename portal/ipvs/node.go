package ipvs

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// localNode has this node's addresses, and tells on which of them NodePorts are served.
type localNode struct {
	own       map[netip.Addr]bool
	nodePorts []netip.Addr // in order

	masquerade portal.Masquerade
	podsKnown  bool // there are rules that tell pods from other clients
}

// forwarding applies this node's settings to a portal that spreads.
func (n localNode) forwarding(p portal.Portal) portal.Forwarding {
	return p.Target.(portal.Spread).Forwarding(p.Kind, n.masquerade, n.podsKnown)
}

// newNode takes addresses in order.
func newLocalNode(addrs []netip.Addr, served []netip.Prefix) localNode {
	n := localNode{own: map[netip.Addr]bool{}}
	for _, a := range addrs {
		n.own[a] = true
		if a.IsGlobalUnicast() && within(a, served) {
			n.nodePorts = append(n.nodePorts, a)
		}
	}
	return n
}

// within tells whether an address is in any of the prefixes, of which none means all.
func within(a netip.Addr, prefixes []netip.Prefix) bool {
	return len(prefixes) == 0 || contained(a, prefixes)
}

func contained(a netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// servesNodePorts tells whether NodePorts are served on an address.
func (n localNode) servesNodePorts(a netip.Addr) bool { return slices.Contains(n.nodePorts, a) }

// servers are the frontends of virtual servers that a portal's frontend may have.
func (n localNode) servers(f service.Frontend) []service.Frontend {
	if !f.Addr.Addr().IsUnspecified() {
		return []service.Frontend{f}
	}
	var out []service.Frontend
	for _, a := range n.nodePorts {
		if a.Is6() == f.Addr.Addr().Is6() {
			out = append(out, service.Frontend{Addr: netip.AddrPortFrom(a, f.Addr.Port()), Protocol: f.Protocol})
		}
	}
	return out
}
