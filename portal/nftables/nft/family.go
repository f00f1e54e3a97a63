package nft

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
)

// Family has the differences between IPv4 and IPv6 in rules.
type Family struct {
	IP       inet.Family
	Word     string // as nft says it: of the table, and of matches of addresses
	Number   byte   // as the kernel says it
	Loopback netip.Prefix
	addr     datatype // of its addresses

	saddrOffset uint32 // of the source address in the header; the destination follows
	header      int    // nft's numbers of the header and of the source address in it, for typeof
	saddrField  int

	portUnreachable uint8 // ICMP's code
}

func FamilyOf(ip inet.Family) Family {
	if ip == inet.IPv6 {
		return IPv6()
	}
	return IPv4()
}

func IPv4() Family {
	return Family{
		IP: inet.IPv4, Word: "ip", Number: nfnl.NFPROTO_IPV4,
		Loopback: netip.MustParsePrefix("127.0.0.0/8"), addr: ipv4Addr(),
		saddrOffset: 12, header: headerIPv4, saddrField: 11,
		portUnreachable: 3,
	}
}

func IPv6() Family {
	return Family{
		IP: inet.IPv6, Word: "ip6", Number: nfnl.NFPROTO_IPV6,
		Loopback: netip.MustParsePrefix("::1/128"), addr: ipv6Addr(),
		saddrOffset: 8, header: headerIPv6, saddrField: 8,
		portUnreachable: 4,
	}
}

// Owns tells whether an address is of this family.
func (f Family) Owns(addr netip.Addr) bool { return inet.FamilyOf(addr) == f.IP }
