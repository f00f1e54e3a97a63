package platform

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/rtnl"
)

// LocalAddresses returns the addresses of the host's interfaces of both families in order, loopback included. IPv6
// link-local addresses have no zone, and are listed once.
func LocalAddresses() ([]netip.Addr, error) {
	all, _, err := localAddresses("")
	return all, err
}

// localAddresses also returns, of these, those by which others know this host, as LocalSet.Node has them.
func localAddresses(without string) (all, node []netip.Addr, err error) {
	addrs, err := rtnl.Addresses(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("local addresses: %w", err)
	}
	index := 0
	if without != "" {
		if link, err := netlink.LinkByName(without); err == nil { // else it has none
			index = link.Attrs().Index
		}
	}
	for _, a := range addrs {
		addr, ok := netip.AddrFromSlice(a.IP)
		if addr = addr.Unmap(); !ok {
			continue
		}
		all = append(all, addr)
		if addr.IsGlobalUnicast() && usable(a.Flags) && (index == 0 || a.LinkIndex != index) {
			node = append(node, addr)
		}
	}
	for _, addrs := range [][]netip.Addr{all, node} {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return slices.Compact(all), slices.Compact(node), nil
}

// usable tells whether sockets can be bound to an address with these flags: not while other hosts are asked whether
// they have it, nor if one does. The kernel tells when that is known.
func usable(flags int) bool {
	asking := flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0
	return !asking && flags&unix.IFA_F_DADFAILED == 0
}
