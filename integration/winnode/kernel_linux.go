package winnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/platform/rtnl"
	"github.com/portald/portald/portal/netshtest"
)

// kernel is the netshtest.Host of a node: the interfaces of its network namespace.
type kernel struct{ node *topology.Host }

func (k kernel) Interfaces() (out []netshtest.Interface, err error) {
	err = k.node.Do(func() error {
		links, err := rtnl.Links()
		if err != nil {
			return err
		}
		for _, l := range links {
			i, err := describe(l)
			if err != nil {
				return err
			}
			out = append(out, i)
		}
		return nil
	})
	return out, err
}

func describe(l netlink.Link) (netshtest.Interface, error) {
	i := netshtest.Interface{Name: l.Attrs().Name, Index: l.Attrs().Index}
	addrs, err := rtnl.Addresses(l, netlink.FAMILY_ALL)
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.IPNet.String()); err == nil {
			i.Addresses = append(i.Addresses, netshtest.Address{Prefix: prefix, State: netshtest.Preferred})
		}
	}
	return i, err
}

func (k kernel) Add(index int, addr netip.Prefix) error {
	return k.change(index, addr, func(l netlink.Link, a *netlink.Addr) error {
		a.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(l, a); errors.Is(err, syscall.EEXIST) {
			return netshtest.ErrExists
		} else if err != nil {
			return fmt.Errorf("add address %s: %w", addr, err)
		}
		return nil
	})
}

func (k kernel) Remove(index int, addr netip.Addr) error {
	return k.change(index, netip.PrefixFrom(addr, addr.BitLen()), func(l netlink.Link, a *netlink.Addr) error {
		if err := netlink.AddrDel(l, a); errors.Is(err, syscall.EADDRNOTAVAIL) {
			return netshtest.ErrNotFound
		} else if err != nil {
			return fmt.Errorf("remove address %s: %w", addr, err)
		}
		return nil
	})
}

func (k kernel) change(index int, addr netip.Prefix, change func(netlink.Link, *netlink.Addr) error) error {
	return k.node.Do(func() error {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("find interface %d: %w", index, err)
		}
		return change(link, &netlink.Addr{IPNet: &net.IPNet{
			IP: addr.Addr().AsSlice(), Mask: net.CIDRMask(addr.Bits(), addr.Addr().BitLen()),
		}})
	})
}
