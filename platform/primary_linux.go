package platform

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/rtnl"
)

// PrimaryAddresses returns the address of each family by which other networks know this host: the one of the default
// route, or the first one of its interface. Without such a route it is the first of any interface but loopback and the
// one named without. A family without addresses has none.
func PrimaryAddresses(without string) (out []netip.Addr, err error) {
	links, err := rtnl.Links()
	if err != nil {
		return nil, err
	}
	for _, family := range inet.Families() {
		addr, err := primaryAddress([2]int{unix.AF_INET, unix.AF_INET6}[family], links, without)
		if err != nil {
			return out, fmt.Errorf("find the primary address of %s: %w", family, err)
		}
		if addr.IsValid() {
			out = append(out, addr)
		}
	}
	return out, nil
}

func primaryAddress(family int, links []netlink.Link, without string) (netip.Addr, error) {
	routes, err := rtnl.Routes(family)
	if err != nil {
		return netip.Addr{}, err
	}
	addrs, err := rtnl.Addresses(nil, family)
	if err != nil {
		return netip.Addr{}, err
	}
	slices.SortStableFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() || r.Type != unix.RTN_UNICAST {
			continue
		}
		if src, ok := netip.AddrFromSlice(r.Src); ok {
			return src.Unmap(), nil
		}
		if addr := firstOf(addrs, outOf(r)); addr.IsValid() {
			return addr, nil
		}
	}
	for _, link := range links {
		loopback := link.Attrs().RawFlags&unix.IFF_LOOPBACK != 0
		if addr := firstOf(addrs, link.Attrs().Index); addr.IsValid() && !loopback && link.Attrs().Name != without {
			return addr, nil
		}
	}
	return netip.Addr{}, nil
}

// outOf is the interface of a route, of which there may be several.
func outOf(r netlink.Route) (index int) {
	if len(r.MultiPath) > 0 {
		return r.MultiPath[0].LinkIndex
	}
	return r.LinkIndex
}

// firstOf is the first address of an interface that others can reach and that stays: of IPv6 some are temporary.
func firstOf(addrs []netlink.Addr, index int) netip.Addr {
	const passing = unix.IFA_F_TEMPORARY | unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	for _, a := range addrs {
		addr, ok := netip.AddrFromSlice(a.IP)
		if addr = addr.Unmap(); ok && a.LinkIndex == index && addr.IsGlobalUnicast() && a.Flags&passing == 0 {
			return addr
		}
	}
	return netip.Addr{}
}
