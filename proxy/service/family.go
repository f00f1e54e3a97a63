package service

import (
	"net/netip"
	"sort"
)

// IPFamily is IPv4 or IPv6. It is comparable, and small enough for an index.
type IPFamily uint8

// The families.
const (
	IPv4 IPFamily = iota
	IPv6
)

// IPFamilies are both, to range over.
func IPFamilies() [2]IPFamily { return [2]IPFamily{IPv4, IPv6} }

// FamilyOf is that of an address. An IPv4-mapped one is an IPv6 address: Unmap comes first.
func FamilyOf(addr netip.Addr) IPFamily {
	if addr.Is6() {
		return IPv6
	}
	return IPv4
}

// String is the name in log lines, and the value of the metrics' label ip_family.
func (f IPFamily) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// Unspecified is the address that listeners on all addresses are bound to.
func (f IPFamily) Unspecified() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Loopback is the loopback address that every host has.
func (f IPFamily) Loopback() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// ExposuresOf returns the frontends of one family.
func (p *Port) ExposuresOf(family IPFamily) []Exposure {
	return ofFamily(p.Exposures, family, func(x Exposure) bool { return x.Frontend.Addr.Addr().Is6() })
}

// EndpointsOf returns the endpoints of one family.
func (p *Port) EndpointsOf(family IPFamily) []Endpoint {
	return ofFamily(p.Endpoints, family, func(e Endpoint) bool { return e.Addr.Addr().Is6() })
}

// SourceRangesOf returns the source ranges of one family. As with kube-proxy, a family without ranges is open to
// everyone, whatever the ranges of the other one.
func (p *Port) SourceRangesOf(family IPFamily) []netip.Prefix {
	return ofFamily(p.SourceRanges, family, func(r netip.Prefix) bool { return r.Addr().Is6() })
}

// ofFamily returns the part of one family, without a copy, of a slice that is sorted by address, IPv4 first.
func ofFamily[T any](sorted []T, family IPFamily, is6 func(T) bool) []T {
	first6 := sort.Search(len(sorted), func(i int) bool { return is6(sorted[i]) })
	if family == IPv6 {
		return sorted[first6:]
	}
	return sorted[:first6:first6]
}
