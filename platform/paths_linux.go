package platform

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Paths tells which ways packets between other hosts take. It knows the routes of the namespace that it was made in. Safe
// for concurrent use.
type Paths struct {
	kernel *netlink.Handle

	mu    sync.Mutex
	ways  map[netip.Addr]way
	since time.Time // of the oldest of ways
}

// way is how an address is reached.
type way struct {
	device int  // its index; 0 = not at all, or it is this host's own
	pod    bool // of this host
	afar   bool // on another host: by an uplink or a tunnel
}

// To ask the kernel costs as much as a connection does, so that answers are kept for a moment: no network gives the
// address of a pod that went to one of another host so soon.
const (
	wayLife = time.Second
	maxWays = 1 << 16
)

// NewPaths returns a Paths, to be closed when nobody asks it any more.
func NewPaths() (*Paths, error) {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a socket to ask for routes: %w", err)
	}
	return &Paths{kernel: kernel, ways: map[netip.Addr]way{}}, nil
}

// Close lets go of what the others need.
func (p *Paths) Close() { p.kernel.Close() }

// Returns tells whether what endpoint answers to client comes by way of this host, so that it can take the answer in. It
// does when either is a pod of this host and they are behind different devices: two on one bridge talk past the host.
// Neither may be the host itself, whose own packets are not routed as those that come in, nor may they be one, who would
// not believe in packets from itself. In doubt it says no. It does not wait; its answers may be a second old.
func (p *Paths) Returns(client, endpoint netip.Addr) bool {
	if client == endpoint || client.Is6() != endpoint.Is6() {
		return false
	}
	there, back := p.way(client), p.way(endpoint)
	return there.device != 0 && back.device != 0 && there.device != back.device && (there.pod || back.pod)
}

// Afar tells whether an address is another host's, or of a pod there: packets to it leave by an uplink or a tunnel. In doubt
// it says no. It does not wait; its answers may be a second old.
func (p *Paths) Afar(addr netip.Addr) bool { return p.way(addr).afar }

func (p *Paths) way(to netip.Addr) way {
	if w, ok := p.remembered(to); ok {
		return w
	}
	w := p.ask(to)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ways[to] = w
	return w
}

func (p *Paths) remembered(to netip.Addr) (way, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.since) > wayLife || len(p.ways) >= maxWays {
		p.ways, p.since = map[netip.Addr]way{}, now
	}
	w, ok := p.ways[to]
	return w, ok
}

func (p *Paths) ask(to netip.Addr) way {
	if to.IsLinkLocalUnicast() {
		return way{}
	}
	by, ok := p.route(to, 0)
	if !ok {
		return way{}
	}
	kind, uplink := p.kind(by.LinkIndex), p.leadsOn(by.LinkIndex, to.Is6())
	return way{
		device: by.LinkIndex,
		pod:    direct(by) && slices.Contains(podDevices(), kind) && !uplink,
		afar:   uplink || slices.Contains(tunnelDevices(), kind),
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
	link, err := p.kernel.LinkByIndex(device)
	if err != nil {
		return ""
	}
	return link.Type()
}

// leadsOn tells whether a default route goes by a device: it is an uplink, which may be a veth or a bridge too. The
// addresses asked for are nobody's (RFC 5737, RFC 3849).
func (p *Paths) leadsOn(device int, ipv6 bool) bool {
	nobody := netip.AddrFrom4([4]byte{203, 0, 113, 1})
	if ipv6 {
		nobody = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1})
	}
	by, ok := p.route(nobody, device)
	return ok && !direct(by)
}
