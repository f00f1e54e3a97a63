package platform

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// Paths looks up the routes of packets between other hosts, in the network namespace in which it was created. While Run
// runs it caches the kernel's answers until routes change. Safe for concurrent use.
type Paths struct {
	kernel     *netlink.Handle
	interfaces *Interfaces
	seed       maphash.Seed
	inUse      chan struct{} // closed by the first lookup
	first      sync.Once

	current atomic.Pointer[epoch] // nil: nothing is cached
	changed atomic.Bool           // the next epoch is about to begin
	cache   [cacheSlots]atomic.Pointer[cachedHop]
}

// nextHop tells how an address is reached.
type nextHop struct {
	device int  // its index; 0: unreachable, or this host's own address
	pod    bool // a pod of this host
	remote bool // on another host, by an uplink or a tunnel
}

// epoch is a time without changes of routes. It is not of size zero: epochs are told apart by their addresses.
type epoch struct{ _ byte }

// cachedHop is an answer of the kernel, valid within its epoch.
type cachedHop struct {
	to    netip.Addr
	since *epoch
	hop   nextHop
}

const (
	cacheSlots = 1 << 14                // slots of the cache, by hash of the address
	gatherTime = 100 * time.Millisecond // how long changes are gathered before the cache is invalidated
)

// NewPaths returns a Paths, which the caller closes after the last lookup.
func NewPaths(interfaces *Interfaces) (*Paths, error) {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a socket for route lookups: %w", err)
	}
	return &Paths{kernel: kernel, interfaces: interfaces, seed: maphash.MakeSeed(), inUse: make(chan struct{})}, nil
}

// Close closes the socket of lookups.
func (p *Paths) Close() { p.kernel.Close() }

// Run follows changes of routes from the first lookup on until ctx ends: a node may have a million that come and go. If
// that fails it calls failed, and tries again every 5 s; meanwhile nothing is cached.
func (p *Paths) Run(ctx context.Context, failed func(error)) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.inUse:
	}
	groups := []uint{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
	}
	return again(ctx, failed, func() error {
		defer p.current.Store(nil)
		return followRoutes(ctx, groups, p.begin, p.invalidate)
	})
}

func (p *Paths) begin() error {
	p.current.Store(&epoch{})
	return nil
}

// invalidate begins the next epoch soon: one epoch covers many messages where interfaces come and go.
func (p *Paths) invalidate(syscall.NetlinkMessage) {
	if p.changed.Swap(true) {
		return
	}
	time.AfterFunc(gatherTime, func() {
		p.changed.Store(false)
		if now := p.current.Load(); now != nil {
			p.current.CompareAndSwap(now, &epoch{})
		}
	})
}

// Returns tells whether packets from endpoint to client pass this host, so that it can intercept them. They do if
// either is a pod of this host and both are behind different devices: two pods on one bridge bypass the host. Neither
// may be the host itself, whose own packets are routed differently, nor may both be the same, since a host drops
// packets from its own address. Unless iface is 0, packets to the client have to leave by that interface: it came in
// there, and may have lied about its address. In doubt it returns false. It may ask the kernel, and block; its answers
// may be 0.1 s old.
func (p *Paths) Returns(client, endpoint netip.Addr, iface int) bool {
	return mayReturn(client, endpoint) && returns(p.nextHop(client), p.nextHop(endpoint), iface)
}

// ReturnsKnown is Returns without asking the kernel: it never blocks, and the answer may not be known.
func (p *Paths) ReturnsKnown(client, endpoint netip.Addr, iface int) (yes, known bool) {
	if !mayReturn(client, endpoint) {
		return false, true
	}
	there, known := p.cached(client)
	if !known {
		return false, false
	}
	back, known := p.cached(endpoint)
	return known && returns(there, back, iface), known
}

func mayReturn(client, endpoint netip.Addr) bool {
	return client != endpoint && client.Is6() == endpoint.Is6() && client.IsGlobalUnicast() && !client.Is4In6()
}

func returns(there, back nextHop, iface int) bool {
	return there.device != 0 && back.device != 0 && there.device != back.device && (there.pod || back.pod) &&
		(iface == 0 || iface == there.device)
}

// Remote tells whether an address is on another host, or of a pod there: packets to it leave by an uplink or a
// tunnel. In doubt it returns false. It may block, and be out of date, as Returns.
func (p *Paths) Remote(addr netip.Addr) bool { return p.nextHop(addr).remote }

// RemoteKnown is Remote without asking the kernel: it never blocks, and the answer may not be known.
func (p *Paths) RemoteKnown(addr netip.Addr) (remote, known bool) {
	w, known := p.cached(addr)
	return w.remote, known
}

func (p *Paths) nextHop(to netip.Addr) nextHop {
	p.first.Do(func() { close(p.inUse) })
	if w, known := p.cached(to); known {
		return w
	}
	since := p.current.Load() // before the lookup
	w := p.lookUp(to)
	if since != nil {
		p.slot(to).Store(&cachedHop{to, since, w})
	}
	return w
}

func (p *Paths) cached(to netip.Addr) (nextHop, bool) {
	now := p.current.Load()
	if now == nil {
		return nextHop{}, false
	}
	k := p.slot(to).Load()
	if k == nil || k.since != now || k.to != to {
		return nextHop{}, false
	}
	return k.hop, true
}

func (p *Paths) slot(to netip.Addr) *atomic.Pointer[cachedHop] {
	b := to.As16()
	return &p.cache[maphash.Bytes(p.seed, b[:])%cacheSlots]
}

func (p *Paths) lookUp(to netip.Addr) nextHop {
	if to.IsLinkLocalUnicast() {
		return nextHop{}
	}
	by, ok := p.route(to, 0)
	if !ok {
		return nextHop{}
	}
	kind, uplink := p.kind(by.LinkIndex), p.isUplink(by.LinkIndex, inet.FamilyOf(to))
	return nextHop{
		device: by.LinkIndex,
		pod:    direct(by) && slices.Contains(podDevices(), kind) && !uplink,
		remote: uplink || slices.Contains(tunnelDevices(), kind),
	}
}

// route returns the unicast route to an address, only by one device unless that is 0.
func (p *Paths) route(to netip.Addr, device int) (netlink.Route, bool) {
	routes, err := p.kernel.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{OifIndex: device})
	if err != nil || len(routes) != 1 || routes[0].Type != unix.RTN_UNICAST {
		return netlink.Route{}, false
	}
	return routes[0], true
}

// direct tells whether a route has no gateway.
func direct(r netlink.Route) bool { return r.Gw == nil && r.Via == nil }

// podDevices are the kinds of devices that connect pods; tunnelDevices those that lead to other hosts.
func podDevices() []string { return []string{"veth", "bridge", "netkit"} }
func tunnelDevices() []string {
	return []string{"vxlan", "geneve", "ipip", "sit", "ip6tnl", "gre", "gretap", "wireguard", "xfrm"}
}

func (p *Paths) kind(device int) string {
	if d, known := p.interfaces.find(device); known {
		return d.kind
	}
	link, err := p.kernel.LinkByIndex(device)
	if err != nil {
		return ""
	}
	return link.Type()
}

// isUplink tells whether a route by the device leads to the Internet, which may be a veth or a bridge too. The
// addresses looked up are reserved for documentation (RFC 5737, RFC 3849).
func (p *Paths) isUplink(device int, family inet.Family) bool {
	elsewhere := netip.AddrFrom4([4]byte{203, 0, 113, 1})
	if family == inet.IPv6 {
		elsewhere = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1})
	}
	by, ok := p.route(elsewhere, device)
	return ok && !direct(by)
}
