// Package inet has the vocabulary of the Internet protocols that all of portald shares: address families, port ranges,
// transport protocols, and flows of the kernel's conntrack table. Values are small and comparable, for map keys and
// indices. It makes no system call.
//
//	for _, family := range inet.Families() {
//		rules[family] = ...
//	}
//	family := inet.FamilyOf(addr.Unmap()) // an IPv4-mapped address counts as IPv6
package inet

import "net/netip"

// Family is IPv4 or IPv6. It is comparable, and small enough for an index.
type Family uint8

// The families.
const (
	IPv4 Family = iota
	IPv6
)

// Families are both, to range over.
func Families() [2]Family { return [2]Family{IPv4, IPv6} }

// FamilyOf returns the family of an address. An IPv4-mapped one is an IPv6 address: Unmap comes first.
func FamilyOf(addr netip.Addr) Family {
	if addr.Is6() {
		return IPv6
	}
	return IPv4
}

// String is the name in log lines, and the value of the metrics' label ip_family.
func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// Unspecified is the address that listeners on all addresses are bound to.
func (f Family) Unspecified() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Loopback is the loopback address that every host has.
func (f Family) Loopback() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
