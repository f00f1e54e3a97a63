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

// DeleteUDP deletes the UDP flows of both families for which stale returns true from the conntrack table, and returns
// how many. A UDP client that keeps sending keeps its flow alive, and with it a translation that rules no longer make.
// dst is the address that the client sends to; replySrc is the source of replies: an endpoint or a listener if the
// kernel translates the flow, dst otherwise. It dumps the table once for each family, so call it for many frontends at
// a time; kernels from 5.8 on dump UDP alone. Needs CAP_NET_ADMIN.
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

// deleteFlows deletes flows. One that has expired meanwhile is no error.
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

// staleUDP returns the attributes by which the kernel identifies each of these flows.
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
		err = nil // the table changed during the dump
	}
	return flows, err
}

// onlyUDP requests flows of UDP alone. Kernels before 5.8 ignore it.
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
