package nftables

import (
	"net/netip"

	"github.com/portald/portald/proxy/service"
)

// family is what differs between IPv4 and IPv6 in the rules.
type family struct {
	name     string // as messages say it
	word     string // as nft says it: of the table, and of its addresses' matches
	ip       service.IPFamily
	loopback netip.Prefix
}

func ipv4() family {
	return family{name: "IPv4", word: "ip", loopback: netip.MustParsePrefix("127.0.0.0/8")}
}

func ipv6() family {
	return family{name: "IPv6", word: "ip6", ip: service.IPv6, loopback: netip.MustParsePrefix("::1/128")}
}

// owns tells whether an address is of this family.
func (f family) owns(addr netip.Addr) bool { return service.FamilyOf(addr) == f.ip }

// addressType is the type of the family's addresses in sets.
func (f family) addressType() string {
	if f.ip == service.IPv6 {
		return "ipv6_addr"
	}
	return "ipv4_addr"
}
