package translate

import (
	"net/netip"
	"strings"
)

// parseAddr reads an address as an object writes it. IPv4-mapped IPv6 becomes IPv4. The second result is empty, or
// says why the address is refused.
func parseAddr(text string) (netip.Addr, string) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, "is no IP address; write one such as 10.96.0.10 or fd00::10"
	}
	if addr.Zone() != "" {
		return netip.Addr{}, "has a zone, which means nothing to other hosts; write the address alone"
	}
	addr = addr.Unmap()
	return addr, unusable(addr)
}

// unusable says why an address can be neither a frontend nor an endpoint; empty when it can. Such addresses mean the
// host itself or its link, and would lead strangers to what listens there (CVE-2021-25736, CVE-2021-25737).
func unusable(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "means every address of the host; write one address"
	case addr.IsLoopback():
		return "is a loopback address, which leads into the host itself; write an address others can reach"
	case addr.IsLinkLocalUnicast():
		return "is a link-local address; write a routable one"
	case addr.IsMulticast():
		return "is a multicast address; write a unicast one"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is the broadcast address; write a unicast one"
	}
	return ""
}

// parsePrefix reads a CIDR, spaces around it and host bits ignored. The second result is as in parseAddr.
func parsePrefix(text string) (netip.Prefix, string) {
	const advice = "is no CIDR; write one such as 192.0.2.0/24, or 192.0.2.7/32 for one address"
	prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return netip.Prefix{}, advice
	}
	if !prefix.Addr().Is4In6() {
		return prefix.Masked(), ""
	}
	if prefix.Bits() < 96 {
		return netip.Prefix{}, advice
	}
	return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96).Masked(), ""
}
