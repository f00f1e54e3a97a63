package config

import (
	"net"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// parseAddr parses an address as kube-proxy does: leading zeros mean nothing, and an IPv4-mapped one is of IPv4.
func parseAddr(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		var ok bool
		if addr, ok = netip.AddrFromSlice(netutils.ParseIPSloppy(s)); !ok {
			return netip.Addr{}, err
		}
	}
	return addr.Unmap(), nil
}

// parseCIDR does so for a CIDR, without its host bits; spaces around it mean nothing.
func parseCIDR(s string) (netip.Prefix, error) {
	_, found, err := netutils.ParseCIDRSloppy(strings.TrimSpace(s))
	if err != nil {
		return netip.Prefix{}, err
	}
	addr, _ := netip.AddrFromSlice(found.IP)
	bits, _ := found.Mask.Size()
	if addr.Is4In6() { // and so has 96 bits or more
		bits -= 8 * (net.IPv6len - net.IPv4len)
	}
	return netip.PrefixFrom(addr.Unmap(), bits), nil
}

// specific is an address unless it is unspecified.
func specific(s string) netip.Addr {
	addr, err := parseAddr(s)
	if err != nil || addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// prefixes are the CIDRs among texts.
func prefixes(from []string) (out []netip.Prefix) {
	for _, s := range from {
		if p, err := parseCIDR(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func addresses(from []string) (out []netip.Addr) {
	for _, s := range from {
		if addr, err := parseAddr(strings.TrimSpace(s)); err == nil {
			out = append(out, addr)
		}
	}
	return out
}
