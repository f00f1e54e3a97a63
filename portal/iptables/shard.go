package iptables

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Portals are sharded over leaf chains, so that a new connection walks tens of rules and a change rewrites few.
// ClusterIPs are drawn at random from a wide range, so the low bits of the address give leaves of even size for any
// allocation: 5 bits choose one of 32 groups, the next 5 one of its 32 leaves. Of the shapes measured, 32 × 32 was
// the fastest at 10,000 portals. NodePorts are sharded by range.
const (
	groupBits = 5
	groups    = 1 << groupBits
	nodePorts = 64 // a leaf
)

// shard identifies a leaf: by the low bits of the address, or for NodePorts by the protocol and the first port.
type shard struct {
	group, leaf uint8
	protocol    inet.Protocol // of a node-port leaf, else 0
	first       uint16
}

func shardOf(f service.Frontend) shard {
	addr := f.Addr.Addr()
	if addr.IsUnspecified() {
		return shard{protocol: f.Protocol, first: f.Addr.Port() &^ (nodePorts - 1)}
	}
	low := lowBits(addr)
	return shard{group: uint8(low % groups), leaf: uint8(low >> groupBits % groups)}
}

func lowBits(addr netip.Addr) uint16 {
	b := addr.As16()
	return uint16(b[14])<<8 | uint16(b[15])
}

func (s shard) nodePort() bool { return s.protocol != 0 }

func (s shard) compare(o shard) int {
	return cmp.Or(cmp.Compare(s.protocol, o.protocol), cmp.Compare(s.first, o.first),
		cmp.Compare(s.group, o.group), cmp.Compare(s.leaf, o.leaf))
}

// leaf is the name of a leaf's chain.
func (c chains) leaf(s shard) string {
	if s.nodePort() {
		return fmt.Sprintf("%s-NP-%s-%d", c.prefix, nodePortWord(s.protocol), s.first)
	}
	return fmt.Sprintf("%s-IP-%02X-%02X", c.prefix, s.group, s.leaf)
}

// group is the name of the chain that jumps to the leaves of a group.
func (c chains) group(n uint8) string { return fmt.Sprintf("%s-IP-%02X", c.prefix, n) }

func nodePortWord(p inet.Protocol) string {
	return strings.ToUpper(p.String())
}

// dports writes one port or first:last, as iptables prints them.
func dports(r inet.PortRange) string {
	if r.Size() == 1 {
		return strconv.Itoa(int(r.First))
	}
	return strconv.Itoa(int(r.First)) + ":" + strconv.Itoa(int(r.Last))
}
