package reach

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// noRoute is what the lookup of a route says if none leads to an address.
var noRoute = map[error]string{
	unix.ENETUNREACH:  "network is unreachable",
	unix.EHOSTUNREACH: "the route is unreachable",
	unix.EACCES:       "the route is prohibited",
	unix.EINVAL:       "the route is a blackhole",
}

// PathTo looks up the way to an address for packets with a mark (0: none). It sends nothing.
func PathTo(to netip.Addr, mark uint32) (p Path) {
	routes, err := netlink.RouteGetWithOptions(net.IP(to.AsSlice()), &netlink.RouteGetOptions{Mark: mark})
	var errno unix.Errno
	if errors.As(err, &errno) {
		p.NoRoute = noRoute[errno]
	}
	if err != nil || len(routes) == 0 {
		return p
	}
	r := routes[0]
	if r.Type == unix.RTN_LOCAL {
		p.Here = true
		return p
	}
	p.Via = gateway(&r)
	hop := p.Via
	if !hop.IsValid() {
		hop = to
	}
	p.neighbor(hop, r.LinkIndex)
	return p
}

// gateway is the next hop of a route, invalid if it leads to a link.
func gateway(r *netlink.Route) netip.Addr {
	ip := r.Gw
	if via, ok := r.Via.(*netlink.Via); ok {
		ip = via.Addr
	}
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

var states = map[int]State{
	unix.NUD_INCOMPLETE: Incomplete, unix.NUD_REACHABLE: "REACHABLE", unix.NUD_STALE: "STALE", unix.NUD_DELAY: "DELAY",
	unix.NUD_PROBE: "PROBE", unix.NUD_FAILED: Failed, unix.NUD_NOARP: "NOARP", unix.NUD_PERMANENT: "PERMANENT",
}

// asked are the states of neighbours that answer for themselves.
const asked = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE

// tick is the unit of times in answers of the kernel, USER_HZ.
const tick = time.Second / 100

// neighbor looks up the one entry of an address on a link, which the kernel can since Linux 5.0.
func (p *Path) neighbor(at netip.Addr, link int) {
	family := uint8(unix.AF_INET)
	if at.Is6() {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	req.AddData(&netlink.Ndmsg{Family: family, Index: uint32(link)})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, at.AsSlice()))
	messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil || len(messages) == 0 {
		return
	}
	n, err := netlink.NeighDeserialize(messages[0])
	if err != nil {
		return
	}
	p.Neighbor = states[n.State]
	if n.State&asked != 0 && n.Flags&netlink.NTF_EXT_LEARNED == 0 {
		p.Confirmed = time.Now().Add(-time.Duration(n.Confirmed) * tick)
	}
}
