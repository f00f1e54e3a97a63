package service

import (
	"net/netip"
	"sort"

	"github.com/portald/portald/platform/inet"
)

// ExposuresOf returns the frontends of one family.
func (p *Port) ExposuresOf(family inet.Family) []Exposure {
	return ofFamily(p.Exposures, family, func(x Exposure) bool { return x.Frontend.Addr.Addr().Is6() })
}

// EndpointsOf returns the endpoints of one family.
func (p *Port) EndpointsOf(family inet.Family) []Endpoint {
	return ofFamily(p.Endpoints, family, func(e Endpoint) bool { return e.Addr.Addr().Is6() })
}

// SourceRangesOf returns the source ranges of one family. As with kube-proxy, a family without ranges is open to
// everyone, whatever the ranges of the other one.
func (p *Port) SourceRangesOf(family inet.Family) []netip.Prefix {
	return ofFamily(p.SourceRanges, family, func(r netip.Prefix) bool { return r.Addr().Is6() })
}

// ofFamily returns the part of one family, without a copy, of a slice that is sorted by address, IPv4 first.
func ofFamily[T any](sorted []T, family inet.Family, is6 func(T) bool) []T {
	first6 := sort.Search(len(sorted), func(i int) bool { return is6(sorted[i]) })
	if family == inet.IPv6 {
		return sorted[first6:]
	}
	return sorted[:first6:first6]
}
