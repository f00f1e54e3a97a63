package ipvs

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/rtnl"
	"github.com/portald/portald/portal/service"
)

// host is the kernel of the network namespace that it was opened in.
type host struct {
	balancer *ipvs.Handle
	links    *netlink.Handle
	device   string
	index    int // of the device, once it is known
}

func (h *host) close() {
	h.balancer.Close()
	h.links.Close()
}

func failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func (h *host) virtualServers() (map[service.Frontend]settings, error) {
	all, err := h.balancer.GetServices()
	if err != nil {
		return nil, fmt.Errorf("list virtual servers: %w", err)
	}
	out := make(map[service.Frontend]settings, len(all))
	for _, s := range all {
		addr, ok := netip.AddrFromSlice(s.Address)
		if s.FWMark != 0 || !ok {
			continue
		}
		f := service.Frontend{Addr: netip.AddrPortFrom(addr, s.Port), Protocol: inet.Protocol(s.Protocol)}
		set := settings{scheduler: s.SchedName, flags: s.Flags & ownFlags}
		if set.flags&persistent != 0 {
			set.timeout = s.Timeout
		}
		out[f] = set
	}
	return out, nil
}

// virtual is a server as the library has it.
func virtual(f service.Frontend, s settings) *ipvs.Service {
	addr := f.Addr.Addr()
	out := &ipvs.Service{
		Address: addr.AsSlice(), Protocol: uint16(f.Protocol), Port: f.Addr.Port(), AddressFamily: unix.AF_INET,
		SchedName: s.scheduler, Flags: s.flags, Timeout: s.timeout, Netmask: 0xffffffff,
	}
	if addr.Is6() {
		out.AddressFamily, out.Netmask = unix.AF_INET6, 128
	}
	return out
}

func (h *host) addServer(f service.Frontend, s settings) error {
	return failed(h.balancer.NewService(virtual(f, s)), "add virtual server %s with scheduler %s", f, s.scheduler)
}

func (h *host) editServer(f service.Frontend, s settings) error {
	return failed(h.balancer.UpdateService(virtual(f, s)), "change virtual server %s", f)
}

func (h *host) removeServer(f service.Frontend) error {
	return failed(h.balancer.DelService(virtual(f, settings{})), "remove virtual server %s", f)
}

func (h *host) destinations(f service.Frontend) ([]destination, error) {
	all, err := h.balancer.GetDestinations(virtual(f, settings{}))
	if err != nil {
		return nil, fmt.Errorf("list endpoints of virtual server %s: %w", f, err)
	}
	out := make([]destination, 0, len(all))
	for _, d := range all {
		if addr, ok := netip.AddrFromSlice(d.Address); ok {
			conns := d.ActiveConnections + d.InactiveConnections
			out = append(out, destination{netip.AddrPortFrom(addr, d.Port), d.Weight, conns})
		}
	}
	slices.SortFunc(out, func(a, b destination) int { return a.addr.Compare(b.addr) })
	return out, nil
}

// real is an endpoint as the library has it: forwarded to by NAT.
func real(addr netip.AddrPort, weight int) *ipvs.Destination {
	return &ipvs.Destination{
		Address: addr.Addr().AsSlice(), Port: addr.Port(), Weight: weight, ConnectionFlags: ipvs.ConnectionFlagMasq,
	}
}

func (h *host) addDestination(f service.Frontend, addr netip.AddrPort, weight int) error {
	return failed(h.balancer.NewDestination(virtual(f, settings{}), real(addr, weight)),
		"add endpoint %s to virtual server %s", addr, f)
}

func (h *host) setWeight(f service.Frontend, addr netip.AddrPort, weight int) error {
	return failed(h.balancer.UpdateDestination(virtual(f, settings{}), real(addr, weight)),
		"give endpoint %s of virtual server %s the weight %d", addr, f, weight)
}

func (h *host) removeDestination(f service.Frontend, addr netip.AddrPort) error {
	return failed(h.balancer.DelDestination(virtual(f, settings{}), real(addr, 0)),
		"remove endpoint %s from virtual server %s", addr, f)
}

func (h *host) timeouts(tcp, fin, udp time.Duration) error {
	config := &ipvs.Config{TimeoutTCP: tcp, TimeoutTCPFin: fin, TimeoutUDP: udp}
	return failed(h.balancer.SetConfig(config), "set IPVS timeouts")
}

// link is the device, or nil.
func (h *host) link() (netlink.Link, error) {
	link, err := h.links.LinkByName(h.device)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", h.device, err)
	}
	h.index = link.Attrs().Index
	return link, nil
}

// makeDevice leaves the device down: its addresses are the host's all the same, and nothing is ever sent by it.
func (h *host) makeDevice() error {
	link, err := h.link()
	if err != nil || link != nil {
		return err
	}
	if err := h.links.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: h.device}}); err != nil {
		return fmt.Errorf("add device %s of type dummy: %w", h.device, err)
	}
	_, err = h.link()
	return err
}

func (h *host) removeDevice() error {
	link, err := h.link()
	if err != nil || link == nil {
		return err
	}
	return failed(h.links.LinkDel(link), "remove device %s", h.device)
}

func (h *host) hostAddresses() (device, others []netip.Addr, err error) {
	if _, err := h.link(); err != nil {
		return nil, nil, err
	}
	all, err := rtnl.Whole("addresses", func() ([]netlink.Addr, error) {
		return h.links.AddrList(nil, netlink.FAMILY_ALL)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		addr, ok := netip.AddrFromSlice(a.IP)
		addr = addr.Unmap()
		switch {
		case !ok:
		case a.LinkIndex != h.index || h.index == 0:
			others = append(others, addr)
		case !addr.IsLinkLocalUnicast():
			device = append(device, addr)
		}
	}
	slices.SortFunc(device, netip.Addr.Compare)
	slices.SortFunc(others, netip.Addr.Compare)
	return device, slices.Compact(others), nil
}

func (h *host) addr(a netip.Addr) (netlink.Link, *netlink.Addr) {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: h.device, Index: h.index}}, addr
}

func (h *host) addAddress(a netip.Addr) error {
	err := h.links.AddrAdd(h.addr(a))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return failed(err, "add address %s to device %s", a, h.device)
}

func (h *host) removeAddress(a netip.Addr) error {
	err := h.links.AddrDel(h.addr(a))
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return failed(err, "remove address %s from device %s", a, h.device)
}

func (h *host) makeSet(s set) error {
	o := netlink.IpsetCreateOptions{Replace: true, Family: unix.AF_INET, MaxElements: maxElements}
	if s.family == inet.IPv6 {
		o.Family = unix.AF_INET6
	}
	if s.timeout > 0 {
		seconds := uint32(s.timeout / time.Second)
		o.Timeout = &seconds
	}
	if s.typ == byNet {
		o.Revision = 2 // the library knows no least one
	}
	err := h.links.IpsetCreate(s.name, s.typ, o)
	if errors.Is(err, nl.IPSetError(nl.IPSET_ERR_EXIST)) || errors.Is(err, unix.EEXIST) {
		return h.same(s)
	}
	return failed(err, "make set %s of type %s", s.name, s.typ)
}

// same tells whether a set that is there already is of its type. Its other properties do not matter.
func (h *host) same(s set) error {
	listed, err := h.links.IpsetList(s.name)
	if err != nil {
		return fmt.Errorf("list set %s: %w", s.name, err)
	}
	if listed.TypeName != s.typ {
		return fmt.Errorf("make set %s of type %s: there is one of type %s; remove it (ipset destroy %[1]s)",
			s.name, s.typ, listed.TypeName)
	}
	return nil
}

func (h *host) elementsOf(s set) ([]element, bool, error) {
	listed, err := h.links.IpsetList(s.name)
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("list set %s: %w", s.name, err)
	}
	out := make([]element, 0, len(listed.Entries))
	for _, e := range listed.Entries {
		out = append(out, read(s.typ, e))
	}
	return out, true, nil
}

func read(typ string, e netlink.IPSetEntry) (out element) {
	addr, ok := netip.AddrFromSlice(e.IP)
	if typ == byNet {
		return element{client: netip.PrefixFrom(addr, cmp.Or(int(e.CIDR), addr.BitLen()))}
	}
	if ok {
		out.addr = addr
	}
	if e.Port != nil {
		out.port = *e.Port
	}
	if e.Protocol != nil {
		out.protocol = inet.Protocol(*e.Protocol)
	}
	if client, ok := netip.AddrFromSlice(e.IP2); ok {
		out.client = netip.PrefixFrom(client, cmp.Or(int(e.CIDR2), client.BitLen()))
	}
	return out
}

// write is the reverse of read.
func write(e element) *netlink.IPSetEntry {
	out := &netlink.IPSetEntry{Replace: true}
	if e.addr.IsValid() {
		out.IP = e.addr.AsSlice()
	}
	if e.port != 0 {
		protocol := uint8(e.protocol)
		out.Port, out.Protocol = &e.port, &protocol
	}
	if e.client.IsValid() && !e.addr.IsValid() {
		out.IP, out.CIDR = e.client.Addr().AsSlice(), uint8(e.client.Bits())
	} else if e.client.IsValid() {
		out.IP2 = e.client.Addr().AsSlice()
		if !e.client.IsSingleIP() {
			out.CIDR2 = uint8(e.client.Bits())
		}
	}
	return out
}

func (h *host) addElement(name string, e element) error {
	return failed(h.links.IpsetAdd(name, write(e)), "add %v to set %s", e, name)
}

func (h *host) removeElement(name string, e element) error {
	return failed(h.links.IpsetDel(name, write(e)), "remove %v from set %s", e, name)
}

func (h *host) destroySet(name string) error {
	err := h.links.IpsetDestroy(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return failed(err, "destroy set %s", name)
}
