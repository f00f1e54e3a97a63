package platform

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// DeleteUDP forgets the UDP flows of both families that stale accepts, and returns how many. A UDP client that keeps
// sending keeps its flow alive, and with it a translation that no rule would make any more. stale is asked for each
// flow with the address that the client wrote to, and the one that answers: an endpoint or a listener if the kernel has
// translated it, or dst itself. It walks the kernel's table once for each family, so ask for a whole set of frontends at a time; kernels
// from 5.8 on show UDP alone. Needs CAP_NET_ADMIN.
func DeleteUDP(ctx context.Context, stale func(dst, replySrc netip.AddrPort) bool) (deleted int, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		flows, err := staleUDP(family, stale)
		n := 0
		if err == nil {
			n, err = deleteFlows(ctx, flows)
		}
		deleted += n
		if err != nil && !unsupported(err) {
			return deleted, fmt.Errorf("delete UDP flows: %w", err)
		}
	}
	return deleted, nil
}

// deleteFlows deletes what has not ended by itself meanwhile.
func deleteFlows(ctx context.Context, flows [][]byte) (deleted int, err error) {
	for _, flow := range flows {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		switch err := deleteFlow(flow); {
		case err == nil:
			deleted++
		case !errors.Is(err, syscall.ENOENT):
			return deleted, err
		}
	}
	return deleted, nil
}

// staleUDP returns what tells each of these flows from all others, as the kernel has it.
func staleUDP(family byte, stale func(dst, replySrc netip.AddrPort) bool) (flows [][]byte, err error) {
	list := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|ipctnlGet, unix.NLM_F_DUMP)
	list.AddRawData(onlyUDP(family))
	err = list.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(b []byte) bool {
		flow := b[min(len(b), nfgenmsgSize):]
		original, reply := find(flow, ctaTupleOrig), find(flow, ctaTupleReply)
		if !bytes.Equal(find(find(original, ctaTupleProto), ctaProtoNum), []byte{unix.IPPROTO_UDP}) {
			return true
		}
		dst, known := destination.of(original)
		replySrc, replies := source.of(reply)
		if known && replies && stale(dst, replySrc) {
			name := append([]byte(nil), b[:nfgenmsgSize]...)
			name = attribute(name, ctaTupleOrig|unix.NLA_F_NESTED, original)
			flows = append(flows, attribute(name, ctaID, find(flow, ctaID)))
		}
		return true
	})
	if errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil // others came or went
	}
	return flows, err
}

// onlyUDP asks for no flows of other protocols. Kernels that do not know how do not heed it.
func onlyUDP(family byte) []byte {
	b := []byte{family, 0, 0, 0} // struct nfgenmsg
	b = nest(b, ctaTupleOrig, func(b []byte) []byte {
		return nest(b, ctaTupleProto, func(b []byte) []byte { return attribute(b, ctaProtoNum, []byte{unix.IPPROTO_UDP}) })
	})
	return nest(b, ctaFilter, func(b []byte) []byte {
		return attribute(b, ctaFilterOrig, binary.NativeEndian.AppendUint32(nil, filterProtocol))
	})
}

func deleteFlow(name []byte) error {
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|ipctnlDelete, unix.NLM_F_ACK)
	r.AddRawData(name)
	_, err := r.Execute(unix.NETLINK_NETFILTER, 0)
	return err
}
