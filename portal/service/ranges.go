package service

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
)

// Merge returns the fewest prefixes that cover the same addresses, masked and sorted, IPv4 first. No two of them
// overlap. Costs O(n log n).
func Merge(prefixes []netip.Prefix) []netip.Prefix {
	sorted := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		sorted = append(sorted, p.Masked())
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	merged := sorted[:0]
	for _, p := range sorted {
		if n := len(merged); n > 0 && merged[n-1].Contains(p.Addr()) {
			continue // the larger of two comes first
		}
		merged = append(merged, p)
		for n := len(merged); n > 1 && parent(merged[n-2]) == parent(merged[n-1]); n = len(merged) {
			merged = append(merged[:n-2], parent(merged[n-1]))
		}
	}
	return merged
}

// parent returns the prefix of which this one is a half; the prefix of all addresses has none, and is returned itself.
func parent(p netip.Prefix) netip.Prefix {
	if p.Bits() == 0 {
		return p
	}
	return netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked()
}

// Within tells whether any of these prefixes, as Merge returns them, contains the address. Costs O(log n) and no
// allocation.
func Within(merged []netip.Prefix, addr netip.Addr) bool {
	i, found := slices.BinarySearchFunc(merged, addr,
		func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	if !found {
		i--
	}
	return i >= 0 && merged[i].Contains(addr)
}

// Admits tells whether the source ranges allow a client to use LoadBalancerIP frontends of its family. Costs O(log n)
// and no allocation.
func (p *Port) Admits(client netip.Addr) bool {
	ranges := p.SourceRangesOf(inet.FamilyOf(client))
	return len(ranges) == 0 || Within(ranges, client)
}

// AdmitsNode tells whether the source ranges of a family name a node, by any of its addresses.
func (p *Port) AdmitsNode(family inet.Family, node []netip.Addr) bool {
	ranges := p.SourceRangesOf(family)
	return slices.ContainsFunc(node, func(a netip.Addr) bool { return Within(ranges, a) })
}
