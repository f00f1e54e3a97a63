//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

// tune applies the same sysctls to all beds. The client closes first and holds connections in TIME_WAIT, so it gets
// more ports; so does the node of another proxy, as its manual recommends. portald's node has the kernel's defaults and
// the sysctls that portald sets itself.
func (b *bed) tune() error {
	short := []*topology.Host{b.net.Client(0)}
	if b.program != "portald" || b.other() {
		short = append(short, b.net.Node)
	}
	for _, h := range short {
		if err := h.Sysctl("ipv4/tcp_tw_reuse", "1"); err != nil {
			return err
		}
	}
	if err := b.net.Client(0).Sysctl("ipv4/ip_local_port_range", "1024 65535"); err != nil {
		return err
	}
	if b.mode != userspace {
		if err := b.crowds(); err != nil {
			return err
		}
	}
	if b.flowRecords != "" { // the ends of flows fall into the measurement
		if err := b.net.Node.Sysctl("netfilter/nf_conntrack_tcp_timeout_time_wait", "1"); err != nil {
			return err
		}
	}
	return b.moreSources()
}

// sources are additional client addresses: UDP flows need more ports than one address has.
func sources() []netip.Addr {
	var all []netip.Addr
	for a, n := netip.MustParseAddr("192.168.51.1"), 0; n < 16; a, n = a.Next(), n+1 {
		all = append(all, a)
	}
	return all
}

func (b *bed) moreSources() error {
	err := b.net.Client(0).Do(func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, a := range sources() {
			if err := netlink.AddrAdd(eth0, &netlink.Addr{IPNet: single(a)}); err != nil {
				return fmt.Errorf("add %s to the client: %w", a, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range sources() {
		if err := route(b.net.Node, "client0", netlink.Route{Dst: single(a), Scope: netlink.SCOPE_LINK}); err != nil {
			return fmt.Errorf("route to %s: %w", a, err)
		}
	}
	return nil
}

// route adds a route by an interface of a host.
func route(h *topology.Host, name string, r netlink.Route) error {
	return h.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		r.LinkIndex = link.Attrs().Index
		return netlink.RouteAdd(&r)
	})
}

func single(a netip.Addr) *net.IPNet { return prefix(netip.PrefixFrom(a, 32)) }

func prefix(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// fresh deletes the connections of the previous measurement: the node's conntrack entries, and portald's records.
func (b *bed) fresh() error {
	err := b.net.Node.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
	if err != nil {
		return fmt.Errorf("flush conntrack: %w", err)
	}
	if !b.records() {
		return nil
	}
	return os.Truncate(b.connectionLog(), 0)
}

// crowds adds these ranges to the pods.
func (b *bed) crowds() error {
	for i := range pods {
		pod := b.net.Pod(i)
		there := netlink.Route{Dst: prefix(crowd(i)), Gw: pod.IPv4.AsSlice()}
		here := netlink.Route{Dst: prefix(crowd(i)), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL,
			Scope: netlink.SCOPE_HOST}
		if err := errors.Join(route(b.net.Node, fmt.Sprint("pod", i), there), route(pod, "lo", here)); err != nil {
			return fmt.Errorf("add addresses to pod %d: %w", i, err)
		}
	}
	return nil
}
