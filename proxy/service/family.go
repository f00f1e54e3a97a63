package service

import "net/netip"

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
