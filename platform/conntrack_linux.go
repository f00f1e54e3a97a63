package platform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// DeleteFlows deletes the flows of a query for which stale returns true from the conntrack table, and returns how many.
// A client that keeps sending keeps its flow alive, and with it what rules did for its first packet. The kernel walks
// the whole table for each family (once for unanswered ones), and leaves out what is not asked for: Linux 5.8 and later
// what is not of UDP, or not to a destination that is the only one; 5.15 and later what is answered or translated.
// Earlier ones list everything. Needs CAP_NET_ADMIN.
func DeleteFlows(ctx context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (deleted int, err error) {
	for _, request := range flowRequests(q) {
		names, err := listStale(ctx, request, q, stale)
		n := 0
		if err == nil {
			n, err = deleteFlows(ctx, names)
		}
		deleted += n
		if err != nil && !unsupported(err) {
			return deleted, fmt.Errorf("delete flows: %w", err)
		}
	}
	return deleted, nil
}

// deleteFlows deletes flows. One that has expired meanwhile is no error.
func deleteFlows(ctx context.Context, names [][]byte) (deleted int, err error) {
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		switch err := deleteFlow(name); {
		case err == nil:
			deleted++
		case !errors.Is(err, syscall.ENOENT):
			return deleted, err
		}
	}
	return deleted, nil
}

// listStale returns the attributes by which the kernel identifies each of these flows.
func listStale(
	ctx context.Context, request []byte, q inet.FlowQuery, stale func(inet.Flow) bool,
) (names [][]byte, err error) {
	list := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	list.AddRawData(request)
	err = list.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(b []byte) bool {
		attributes := b[min(len(b), nl.SizeofNfgenmsg):]
		if f, ok := parseFlow(attributes); ok && matches(q, f) && stale(f) {
			name := append([]byte(nil), b[:nl.SizeofNfgenmsg]...)
			name = attribute(name, nl.CTA_TUPLE_ORIG|unix.NLA_F_NESTED, find(attributes, nl.CTA_TUPLE_ORIG))
			names = append(names, attribute(name, nl.CTA_ID, find(attributes, nl.CTA_ID)))
		}
		return ctx.Err() == nil
	})
	if errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil // the table changed during the dump
	}
	return names, errors.Join(err, ctx.Err())
}

// matches tells whether the kernel would have listed a flow if it knew all filters.
func matches(q inet.FlowQuery, f inet.Flow) bool {
	if q.Unreplied {
		return !f.Replied && !f.Translated()
	}
	return f.Protocol == inet.UDP
}

// parseFlow returns the flow that an entry's attributes describe; false: it is not between ports.
func parseFlow(attributes []byte) (f inet.Flow, ok bool) {
	original := find(attributes, nl.CTA_TUPLE_ORIG)
	protocol := find(find(original, nl.CTA_TUPLE_PROTO), nl.CTA_PROTO_NUM)
	to, known := destination.of(original)
	replier, replies := source.of(find(attributes, nl.CTA_TUPLE_REPLY))
	if !known || !replies || len(protocol) != 1 {
		return f, false
	}
	f.Protocol, f.To, f.Replier = inet.Protocol(protocol[0]), to, replier
	if status := find(attributes, nl.CTA_STATUS); len(status) == 4 {
		f.Replied = binary.BigEndian.Uint32(status)&ipsSeenReply != 0
	}
	return f, true
}

// flowRequests are the dumps that a query takes.
func flowRequests(q inet.FlowQuery) (out [][]byte) {
	if q.Unreplied {
		b := []byte{unix.AF_UNSPEC, 0, 0, 0} // struct nfgenmsg
		b = attribute(b, nl.CTA_STATUS, make([]byte, 4))
		return [][]byte{attribute(b, ctaStatusMask, binary.BigEndian.AppendUint32(nil, ipsSeenReply|ipsDstNAT))}
	}
	for _, family := range inet.Families() {
		var to []netip.AddrPort
		for _, a := range q.To {
			if inet.FamilyOf(a.Addr()) == family {
				to = append(to, a)
			}
		}
		switch {
		case len(to) == 1:
			out = append(out, udpRequest(family, to[0]))
		case len(to) > 1 || len(q.To) == 0:
			out = append(out, udpRequest(family, netip.AddrPort{}))
		}
	}
	return out
}

// udpRequest requests flows of UDP alone, to one destination if that is valid. Kernels before 5.8 ignore either. Of
// IPv6 they look at the port: up to 6.18 at least they list flows to all addresses but the one that is asked for.
func udpRequest(family inet.Family, to netip.AddrPort) []byte {
	number := byte(unix.AF_INET)
	if family == inet.IPv6 {
		number = unix.AF_INET6
	}
	parts := uint32(filterProtocol)
	b := []byte{number, 0, 0, 0} // struct nfgenmsg
	b = nest(b, nl.CTA_TUPLE_ORIG, func(b []byte) []byte {
		if to.Addr().Is4() && !to.Addr().IsUnspecified() {
			parts |= filterDst
			b = nest(b, nl.CTA_TUPLE_IP, func(b []byte) []byte { return attribute(b, nl.CTA_IP_V4_DST, to.Addr().AsSlice()) })
		}
		return nest(b, nl.CTA_TUPLE_PROTO, func(b []byte) []byte {
			b = attribute(b, nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_UDP})
			if to.IsValid() {
				parts |= filterDstPort
				b = attribute(b, nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, to.Port()))
			}
			return b
		})
	})
	return nest(b, ctaFilter, func(b []byte) []byte {
		return attribute(b, ctaFilterOrig, binary.NativeEndian.AppendUint32(nil, parts))
	})
}

func deleteFlow(name []byte) error {
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK)
	r.AddRawData(name)
	_, err := r.Execute(unix.NETLINK_NETFILTER, 0)
	return err
}
