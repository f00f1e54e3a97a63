package platform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DeleteUDP forgets the UDP flows that clients began towards an address match accepts, in both families, and returns
// how many. A UDP client that keeps sending keeps its flow alive, and with it a translation that no rule would make any
// more. It reads the kernel's table once for each family, so ask for a whole set of frontends at a time. Needs
// CAP_NET_ADMIN.
func DeleteUDP(ctx context.Context, match func(origDst netip.AddrPort) bool) (deleted int, err error) {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if err := ctx.Err(); err != nil {
			return deleted, fmt.Errorf("delete UDP flows: %w", err)
		}
		n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, udpTo(match))
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

type udpTo func(netip.AddrPort) bool

func (match udpTo) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	addr, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	return ok && match(netip.AddrPortFrom(addr.Unmap(), flow.Forward.DstPort))
}
