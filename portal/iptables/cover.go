package iptables

import (
	"maps"
	"net/netip"
	"slices"
)

// New connections to addresses that are not a Service's walk rules too: those to pods, and above all the proxy's own
// dials. Covers are prefixes that hold all addresses of portals, so that such a connection walks one rule for each
// cover. Addresses are counted in blocks, and the blocks of one neighbourhood are covered by their common prefix: a
// service CIDR of any size by one cover.
const (
	blockBits4, neighbourhoodBits4 = 16, 8
	blockBits6, neighbourhoodBits6 = 112, 64 // no service range is larger than a /108
)

// maxCovers is the number above which one cover holds everything: to match more would cost what they save.
const maxCovers = 16

func blockOf(addr netip.Addr) netip.Prefix {
	if addr.Is4() {
		return prefix(addr, blockBits4)
	}
	return prefix(addr, blockBits6)
}

func prefix(addr netip.Addr, bits int) netip.Prefix { return netip.PrefixFrom(addr, bits).Masked() }

// covers returns the covers of all blocks, in order.
func (t *tree) covers() []netip.Prefix {
	covers := map[netip.Prefix]netip.Prefix{} // by neighbourhood
	for block := range t.blocks {
		near := prefix(block.Addr(), neighbourhoodBits6)
		if block.Addr().Is4() {
			near = prefix(block.Addr(), neighbourhoodBits4)
		}
		if other, ok := covers[near]; ok {
			block = common(block, other)
		}
		covers[near] = block
	}
	all := slices.SortedFunc(maps.Values(covers), netip.Prefix.Compare)
	if len(all) > maxCovers {
		return []netip.Prefix{prefix(all[0].Addr(), 0)}
	}
	return all
}

// common is the smallest prefix that holds both.
func common(a, b netip.Prefix) netip.Prefix {
	bits := min(a.Bits(), b.Bits())
	for prefix(a.Addr(), bits) != prefix(b.Addr(), bits) {
		bits--
	}
	return prefix(a.Addr(), bits)
}
