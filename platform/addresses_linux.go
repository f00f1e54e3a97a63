package platform

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// LocalAddresses returns the addresses of the host's interfaces of both families in order, loopback included. IPv6
// link-local addresses have no zone, and are listed once.
func LocalAddresses() ([]netip.Addr, error) {
	all, _, err := localAddresses("")
	return all, err
}

// localAddresses also returns, of these, those that only the interface of that name has.
func localAddresses(only string) (all, there []netip.Addr, err error) {
	found, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("list local addresses: %w", err)
	}
	index := 0
	if only != "" {
		if link, err := netlink.LinkByName(only); err == nil { // else it has none
			index = link.Attrs().Index
		}
	}
	elsewhere := map[netip.Addr]struct{}{}
	for _, a := range found {
		addr, ok := netip.AddrFromSlice(a.IP)
		if addr = addr.Unmap(); !ok {
			continue
		}
		if all = append(all, addr); a.LinkIndex == index {
			there = append(there, addr)
		} else if index != 0 {
			elsewhere[addr] = struct{}{}
		}
	}
	there = slices.DeleteFunc(there, func(a netip.Addr) bool { _, is := elsewhere[a]; return is })
	for _, addrs := range [][]netip.Addr{all, there} {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return slices.Compact(all), there, nil
}
