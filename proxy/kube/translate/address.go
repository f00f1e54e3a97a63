package translate

import (
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// parseAddr parses an address of an object. IPv4-mapped IPv6 becomes IPv4. Advice says why the address is refused;
// empty if it is not. Leading zeros mean nothing, as for all of Kubernetes: clusters have such addresses from the time
// when the API server took them.
func parseAddr(text string) (parsed netip.Addr, advice string) {
	addr, err := netip.ParseAddr(text) // of millions of endpoints; what follows allocates
	if err != nil {
		addr, _ = netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	}
	if !addr.IsValid() {
		return netip.Addr{}, "is not an IP address; write one such as 10.96.0.10 or fd00::10"
	}
	if addr.Zone() != "" {
		return netip.Addr{}, "has a zone, which only its own host can use; write the address without it"
	}
	addr = addr.Unmap()
	return addr, unusable(addr)
}

// unusable says why an address can be neither a frontend nor an endpoint; empty when it can. Such addresses are the
// host itself or its link, and would expose what listens there to other hosts (CVE-2021-25736, CVE-2021-25737).
func unusable(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "is the unspecified address, which stands for all addresses of the host; write one address"
	case addr.IsLoopback():
		return "is a loopback address; write an address that other hosts can reach"
	case addr.IsLinkLocalUnicast():
		return "is a link-local address; write a routable one"
	case addr.IsMulticast():
		return "is a multicast address; write a unicast one"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is the broadcast address; write a unicast one"
	}
	return ""
}

// refusedEndpoint is unusable for an address of a slice. Kubernetes' validation refuses the same, but nothing has
// validated manifests.
func refusedEndpoint(addr netip.Addr) string {
	switch {
	case addr.IsLoopback():
		return "is a loopback address; portald refuses it as an endpoint, as Kubernetes does, because clients would " +
			"reach ports that a node opens to itself alone; write the address of the pod, or for a server on this host " +
			"an address of its network interface, at which the server has to listen"
	case addr.IsLinkLocalUnicast():
		return "is a link-local address; portald refuses it as an endpoint, as Kubernetes does, because clients would " +
			"reach what only the node may, such as the metadata service of a cloud; write a routable address of the pod"
	}
	return unusable(addr)
}

// parsePrefix parses a CIDR; spaces around it, host bits and leading zeros are ignored. Advice is as in parseAddr.
func parsePrefix(text string) (parsed netip.Prefix, advice string) {
	const notCIDR = "is not a CIDR; write one such as 192.0.2.0/24, or 192.0.2.7/32 for one address"
	text = strings.TrimSpace(text)
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		prefix = parseSloppy(text)
	}
	if !prefix.IsValid() {
		return netip.Prefix{}, notCIDR
	}
	if !prefix.Addr().Is4In6() {
		return prefix.Masked(), ""
	}
	if prefix.Bits() < 96 {
		return netip.Prefix{}, notCIDR
	}
	return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96).Masked(), ""
}

// parseSloppy parses a CIDR with leading zeros; invalid if it is none.
func parseSloppy(text string) netip.Prefix {
	_, found, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(found.IP)
	bits, _ := found.Mask.Size()
	return netip.PrefixFrom(addr, bits)
}
