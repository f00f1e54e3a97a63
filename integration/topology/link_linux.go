package topology

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/rtnl"
)

func (h *Host) linkAll(kind string, to []*Host, s side) error {
	v4, v6 := s.gateway()
	for i, t := range to {
		if err := h.link(t, fmt.Sprint(kind, i), v4, v6); err != nil {
			return fmt.Errorf("link %s: %w", t.Name, err)
		}
	}
	return nil
}

// link joins a host to the node, whose end of the veth pair gets the name. The host has its address alone on eth0 and
// everything else behind the node; the node has the gateway's address on each of its ends and a route to the host.
func (h *Host) link(to *Host, name string, gw4, gw6 netip.Addr) error {
	if err := h.cable(name, to, "eth0"); err != nil {
		return err
	}
	own, other := []netip.Addr{gw4, gw6}, []netip.Addr{to.IPv4, to.IPv6}
	if err := h.Do(func() error { return attach(name, own, other, false) }); err != nil {
		return err
	}
	if err := to.Do(func() error { return attach("eth0", other, own, true) }); err != nil {
		return err
	}
	return carry(h, name, to, "eth0")
}

// Unplug takes a link of a host down: eth0 leads to its node, and control from a node of a Cluster to its control host.
// Plug brings it up again, with the addresses and routes that it had.
func (h *Host) Unplug(name string) (plug func() error, err error) {
	var link netlink.Link
	var addrs []netlink.Addr
	var routes []netlink.Route
	err = h.Do(func() (err error) {
		if link, err = netlink.LinkByName(name); err != nil {
			return err
		}
		if addrs, err = rtnl.Addresses(link, netlink.FAMILY_ALL); err != nil {
			return err
		}
		if routes, err = netlink.RouteList(link, netlink.FAMILY_ALL); err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
	return func() error {
		err := h.Do(func() error {
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
			for _, a := range addrs {
				if a.IP.IsLinkLocalUnicast() {
					continue // the kernel's own
				}
				if err := netlink.AddrReplace(link, &a); err != nil {
					return fmt.Errorf("add address %s: %w", a, err)
				}
			}
			slices.SortStableFunc(routes, func(a, b netlink.Route) int { return len(a.Gw) - len(b.Gw) }) // by the neighbour
			for _, r := range routes {
				if r.Protocol == unix.RTPROT_KERNEL {
					continue
				}
				if err := netlink.RouteReplace(&r); err != nil {
					return fmt.Errorf("add route %s: %w", r, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return h.carries(name)
	}, err
}

// cable makes a veth pair between two hosts.
func (h *Host) cable(name string, to *Host, nameThere string) error {
	there, err := os.Open(to.Path())
	if err != nil {
		return err
	}
	defer there.Close()
	return h.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: nameThere, PeerNamespace: netlink.NsFd(int(there.Fd()))}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("add veth pair: %w", err)
		}
		return nil
	})
}

// linkTime is how long a link may take to carry packets: on a machine without load less than a millisecond.
const linkTime = 10 * time.Second

// carry waits until both ends of a link carry packets.
func carry(a *Host, aName string, b *Host, bName string) error {
	if err := a.carries(aName); err != nil {
		return err
	}
	return b.carries(bName)
}

// carries waits until an end of a link knows that the other one is up, and its addresses lead here: the kernel does
// both in the background. Until then it drops what is sent and asks for the other's address once more after a second,
// or sends there what is for itself.
func (h *Host) carries(name string) error {
	return h.Do(func() error {
		for start := time.Now(); time.Since(start) < linkTime; time.Sleep(100 * time.Microsecond) {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			addrs, err := rtnl.Addresses(link, netlink.FAMILY_ALL)
			if err != nil {
				return err
			}
			if link.Attrs().OperState == netlink.OperUp && !slices.ContainsFunc(addrs, elsewhere) {
				return nil
			}
		}
		return fmt.Errorf("%s does not carry packets after %s", name, linkTime)
	})
}

// elsewhere tells whether an address that this host was given does not lead here yet.
func elsewhere(a netlink.Addr) bool {
	if a.IP.IsLinkLocalUnicast() { // the kernel's own, which it tries for a second
		return false
	}
	routes, err := netlink.RouteGet(a.IP)
	return err != nil || len(routes) == 0 || routes[0].Type != unix.RTN_LOCAL
}

// attach gives an interface its own addresses and routes to those of the other end, and if wanted to everything by it.
// Zero addresses on either side stand for a family left out.
func attach(name string, own, other []netip.Addr, all bool) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	for i := range own {
		if !own[i].IsValid() || !other[i].IsValid() {
			continue
		}
		if err := attachOne(link, own[i], other[i], all); err != nil {
			return err
		}
	}
	return nil
}

func attachOne(link netlink.Link, own, other netip.Addr, all bool) error {
	addr := &netlink.Addr{IPNet: single(own)}
	if own.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("add address %s: %w", own, err)
	}
	index := link.Attrs().Index
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: single(other),
		Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("add route to %s: %w", other, err)
	}
	if !all {
		return nil
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: other.AsSlice()}); err != nil {
		return fmt.Errorf("add default route by %s: %w", other, err)
	}
	return nil
}

// single is the prefix of one address.
func single(a netip.Addr) *net.IPNet { return ipNet(netip.PrefixFrom(a, a.BitLen())) }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// setUp brings an interface of the thread's namespace up.
func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}
