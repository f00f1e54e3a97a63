package nftables

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
)

// family is what differs between IPv4 and IPv6 in rules.
type family struct {
	ip       inet.Family
	word     string // as nft says it: of the table, and of matches of addresses
	number   byte   // as the kernel says it
	loopback netip.Prefix
	addr     datatype // of its addresses

	saddrOffset uint32 // of the source address in the header; that of the destination follows
	header      int    // nft's number of the header, and that of the source address in it, for typeof
	saddrField  int

	portUnreachable uint8 // ICMP's code
}

func familyOf(ip inet.Family) family {
	if ip == inet.IPv6 {
		return ipv6()
	}
	return ipv4()
}

func ipv4() family {
	return family{
		ip: inet.IPv4, word: "ip", number: nfnl.NFPROTO_IPV4,
		loopback: netip.MustParsePrefix("127.0.0.0/8"), addr: ipv4Addr(),
		saddrOffset: 12, header: headerIPv4, saddrField: 11,
		portUnreachable: 3,
	}
}

func ipv6() family {
	return family{
		ip: inet.IPv6, word: "ip6", number: nfnl.NFPROTO_IPV6,
		loopback: netip.MustParsePrefix("::1/128"), addr: ipv6Addr(),
		saddrOffset: 8, header: headerIPv6, saddrField: 8,
		portUnreachable: 4,
	}
}

// owns tells whether an address is of this family.
func (f family) owns(addr netip.Addr) bool { return inet.FamilyOf(addr) == f.ip }
