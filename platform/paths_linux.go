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

	"github.com/portald/portald/proxy/service"
)

// Paths tells which ways packets between other hosts take. It knows the routes of the namespace that it was made in: it
// keeps what the kernel answered until that tells of a change, as long as Run runs. Safe for concurrent use.
type Paths struct {
	kernel     *netlink.Handle
	interfaces *Interfaces
	seed       maphash.Seed
	asked      chan struct{} // closed by the first who asks
	first      sync.Once

	present atomic.Pointer[epoch] // nil: nothing is kept
	changed atomic.Bool           // another epoch begins soon
	ways    [maxWays]atomic.Pointer[knownWay]
}

// way is how an address is reached.
type way struct {
	device int  // its index; 0 = not at all, or it is this host's own
	pod    bool // of this host
	remote bool // on another host: by an uplink or a tunnel
}

// epoch is a time without changes. It has a size, since the address is what tells one from another.
type epoch struct{ _ byte }

// knownWay is what the kernel answered within an epoch.
type knownWay struct {
	to    netip.Addr
	since *epoch
	way   way
}

const (
	maxWays   = 1 << 14                // addresses of which the answers are kept; two that hash alike are not, together
	wayGather = 100 * time.Millisecond // how long changes are gathered before all is asked anew
)

// NewPaths returns a Paths, to be closed when nobody asks it any more.
func NewPaths(interfaces *Interfaces) (*Paths, error) {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a socket to ask for routes: %w", err)
	}
	return &Paths{kernel: kernel, interfaces: interfaces, seed: maphash.MakeSeed(), asked: make(chan struct{})}, nil
}

// Close lets go of what the others need.
func (p *Paths) Close() { p.kernel.Close() }

// Run follows changes of routes until ctx ends, once anybody has asked: a node may have a million that come and go. While
// that fails nothing is kept; failed is told, and it is tried again every 5 s.
func (p *Paths) Run(ctx context.Context, failed func(error)) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.asked:
	}
	groups := []uint{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
	}
	return again(ctx, failed, func() error {
		defer p.present.Store(nil)
		return followRoutes(ctx, groups, p.begin, p.heard)
	})
}

func (p *Paths) begin() error {
	p.present.Store(&epoch{})
	return nil
}

// heard begins another epoch soon: where interfaces come and go, one serves many notices.
func (p *Paths) heard(syscall.NetlinkMessage) {
	if p.changed.Swap(true) {
		return
	}
	time.AfterFunc(wayGather, func() {
		p.changed.Store(false)
		if now := p.present.Load(); now != nil {
			p.present.CompareAndSwap(now, &epoch{})
		}
	})
}

// Returns tells whether what endpoint answers to client comes by way of this host, so that it can take the answer in. It
// does when either is a pod of this host and they are behind different devices: two on one bridge talk past the host.
// Neither may be the host itself, whose own packets are not routed as those that come in, nor may they be one, who would
// not believe in packets from itself. In doubt it says no. It may ask the kernel, and wait; its answers may be a tenth of
// a second old.
func (p *Paths) Returns(client, endpoint netip.Addr) bool {
	return mayReturn(client, endpoint) && returns(p.way(client), p.way(endpoint))
}

// ReturnsKnown is Returns as far as it is known without asking the kernel. It never waits.
func (p *Paths) ReturnsKnown(client, endpoint netip.Addr) (yes, known bool) {
	if !mayReturn(client, endpoint) {
		return false, true
	}
	there, known := p.remembered(client)
	if !known {
		return false, false
	}
	back, known := p.remembered(endpoint)
	return known && returns(there, back), known
}

func mayReturn(client, endpoint netip.Addr) bool {
	return client != endpoint && client.Is6() == endpoint.Is6()
}

func returns(there, back way) bool {
	return there.device != 0 && back.device != 0 && there.device != back.device && (there.pod || back.pod)
}

// Remote tells whether an address is another host's, or of a pod there: packets to it leave by an uplink or a tunnel. In doubt
// it says no. It may wait, and be late, as Returns.
func (p *Paths) Remote(addr netip.Addr) bool { return p.way(addr).remote }

// RemoteKnown is Remote as far as it is known without asking the kernel. It never waits.
func (p *Paths) RemoteKnown(addr netip.Addr) (remote, known bool) {
	w, known := p.remembered(addr)
	return w.remote, known
}

func (p *Paths) way(to netip.Addr) way {
	p.first.Do(func() { close(p.asked) })
	if w, known := p.remembered(to); known {
		return w
	}
	since := p.present.Load() // before the kernel is asked
	w := p.ask(to)
	if since != nil {
		p.place(to).Store(&knownWay{to, since, w})
	}
	return w
}

func (p *Paths) remembered(to netip.Addr) (way, bool) {
	now := p.present.Load()
	if now == nil {
		return way{}, false
	}
	k := p.place(to).Load()
	if k == nil || k.since != now || k.to != to {
		return way{}, false
	}
	return k.way, true
}

func (p *Paths) place(to netip.Addr) *atomic.Pointer[knownWay] {
	b := to.As16()
	return &p.ways[maphash.Bytes(p.seed, b[:])%maxWays]
}

func (p *Paths) ask(to netip.Addr) way {
	if to.IsLinkLocalUnicast() {
		return way{}
	}
	by, ok := p.route(to, 0)
	if !ok {
		return way{}
	}
	kind, uplink := p.kind(by.LinkIndex), p.leadsOn(by.LinkIndex, service.FamilyOf(to))
	return way{
		device: by.LinkIndex,
		pod:    direct(by) && slices.Contains(podDevices(), kind) && !uplink,
		remote: uplink || slices.Contains(tunnelDevices(), kind),
	}
}

// route is the one to an address elsewhere, of those by one device unless 0.
func (p *Paths) route(to netip.Addr, device int) (netlink.Route, bool) {
	found, err := p.kernel.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{OifIndex: device})
	if err != nil || len(found) != 1 || found[0].Type != unix.RTN_UNICAST {
		return netlink.Route{}, false
	}
	return found[0], true
}

// direct tells that no gateway stands between.
func direct(r netlink.Route) bool { return r.Gw == nil && r.Via == nil }

// podDevices are the kinds of device that pods are connected by; tunnelDevices those that lead to other hosts.
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

// leadsOn tells whether a default route goes by a device: it is an uplink, which may be a veth or a bridge too. The
// addresses asked for are nobody's (RFC 5737, RFC 3849).
func (p *Paths) leadsOn(device int, family service.IPFamily) bool {
	nobody := netip.AddrFrom4([4]byte{203, 0, 113, 1})
	if family == service.IPv6 {
		nobody = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1})
	}
	by, ok := p.route(nobody, device)
	return ok && !direct(by)
}
