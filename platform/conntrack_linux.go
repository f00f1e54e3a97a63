package platform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DeleteUDP forgets the UDP flows of both families that stale accepts, and returns how many. A UDP client that keeps
// sending keeps its flow alive, and with it a translation that no rule would make any more. stale is asked for each
// flow with the address that the client wrote to, and the one that answers: an endpoint or a listener if the kernel has
// translated it, or dst itself. It reads the kernel's table once for each family, so ask for a whole set of frontends
// at a time. Needs CAP_NET_ADMIN.
func DeleteUDP(ctx context.Context, stale func(dst, replySrc netip.AddrPort) bool) (deleted int, err error) {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if err := ctx.Err(); err != nil {
			return deleted, fmt.Errorf("delete UDP flows: %w", err)
		}
		n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, staleUDP(stale))
		deleted += int(n)
		if err != nil && !unsupported(err) {
			return deleted, fmt.Errorf("delete UDP flows: %w", err)
		}
	}
	return deleted, nil
}

// unsupported is how a kernel without IPv6 answers for that family.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}

type staleUDP func(dst, replySrc netip.AddrPort) bool

func (stale staleUDP) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	dst, known := addrPort(flow.Forward.DstIP, flow.Forward.DstPort)
	replySrc, replies := addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort)
	return known && replies && stale(dst, replySrc)
}

func addrPort(ip net.IP, port uint16) (netip.AddrPort, bool) {
	addr, ok := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port), ok
}
