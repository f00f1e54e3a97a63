package writers

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform/inet"
)

// NodePortAddresses returns the addresses that NodePorts are served on; empty means all. Node are the addresses of the
// Node object, as far as they are known.
func NodePortAddresses(cfg *config.Config, node []netip.Addr) []netip.Prefix {
	ask := cfg.NodePorts
	if ask.All {
		return nil
	}
	out := slices.Clone(ask.CIDRs)
	if ask.Primary {
		if cfg.NodeAddress.IsValid() {
			node = append([]netip.Addr{cfg.NodeAddress}, node...)
		}
		for _, a := range firstOfEachFamily(node) {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	if len(out) == 0 { // none is known yet, or loopback alone, which no rule leads from
		out = append(out, netip.PrefixFrom(inet.IPv4.Loopback(), 32))
	}
	return out
}

// ListsNodeAddresses tells whether the writer writes NodePorts for each address that the host has: one that comes later
// takes a Replace.
func ListsNodeAddresses(cfg *config.Config) bool { return cfg.Writer == IPVS }

// firstOfEachFamily returns the first IPv4 and the first IPv6 address.
func firstOfEachFamily(addrs []netip.Addr) (out []netip.Addr) {
	for _, family := range inet.Families() {
		i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return inet.FamilyOf(a) == family })
		if i >= 0 {
			out = append(out, addrs[i])
		}
	}
	return out
}
