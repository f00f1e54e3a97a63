package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ConntrackTable looks up UDP flows in the kernel's conntrack table. Safe for concurrent use; needs CAP_NET_ADMIN.
type ConntrackTable struct{ sockets chan int }

// flowSockets bounds the number of idle netlink sockets; each caller uses one at a time.
const flowSockets = 8

// NewConntrackTable returns a ConntrackTable that opens sockets on demand.
func NewConntrackTable() *ConntrackTable { return &ConntrackTable{make(chan int, flowSockets)} }

// Close closes the idle sockets.
func (t *ConntrackTable) Close() {
	for {
		select {
		case fd := <-t.sockets:
			unix.Close(fd)
		default:
			return
		}
	}
}

// OriginalDstUDP returns the original destination of datagrams from client that arrive at local. An error means that
// the kernel tracks no such flow. It costs two system calls.
func (t *ConntrackTable) OriginalDstUDP(client, local netip.AddrPort) (netip.AddrPort, error) {
	fd, err := t.take()
	if err != nil {
		return netip.AddrPort{}, err
	}
	dst, err := lookUpFlow(fd, client, local)
	var refused syscall.Errno
	if err != nil && !errors.As(err, &refused) {
		unix.Close(fd) // requests and answers are out of step
		return dst, err
	}
	select {
	case t.sockets <- fd:
	default:
		unix.Close(fd)
	}
	return dst, err
}

func (t *ConntrackTable) take() (int, error) {
	select {
	case fd := <-t.sockets:
		return fd, nil
	default:
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("open netlink socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("connect netlink socket: %w", err)
	}
	return fd, nil
}

// Attributes and flags of linux/netfilter/nfnetlink_conntrack.h, and bits of nf_conntrack_common.h: nl lacks these.
const (
	ctaFilter      = 25
	ctaStatusMask  = 26
	ctaFilterOrig  = 1      // which parts of the original tuple have to be as given
	filterDst      = 1 << 1 // of these, the destination's address
	filterProtocol = 1 << 3 // the protocol
	filterDstPort  = 1 << 5 // the destination's port
	ipsSeenReply   = 1 << 1
	ipsDstNAT      = 1 << 5
)

const flowAnswerSize = 2048 // one entry with all its counters and extensions takes some 300 bytes

// lookUpFlow looks up a flow by its reply tuple: from local to client.
func lookUpFlow(fd int, client, local netip.AddrPort) (netip.AddrPort, error) {
	var room [256]byte
	if err := syscallSend(fd, flowRequest(room[:0], client, local)); err != nil {
		return netip.AddrPort{}, err
	}
	var answer [flowAnswerSize]byte
	n, err := syscallRecv(fd, answer[:])
	if err != nil {
		return netip.AddrPort{}, err
	}
	return flowAnswer(answer[:n])
}

func syscallSend(fd int, b []byte) error {
	_, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("request a flow: %s", e)
	}
	return nil
}

// syscallRecv does not block: the kernel answers before the send of the request returns.
func syscallRecv(fd int, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, fmt.Errorf("read a flow: %s", e)
	}
	return int(n), nil
}

func flowRequest(b []byte, client, local netip.AddrPort) []byte {
	ne := binary.NativeEndian
	b = append(b, make([]byte, unix.SizeofNlMsghdr)...)
	b = append(b, addressFamily(client.Addr()), 0, 0, 0) // struct nfgenmsg
	b = tuple(b, nl.CTA_TUPLE_REPLY, unix.IPPROTO_UDP, local, client)
	ne.PutUint32(b[0:], uint32(len(b)))
	ne.PutUint16(b[4:], unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	return b
}

func addressFamily(a netip.Addr) byte {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// tuple is one direction of a flow.
func tuple(b []byte, kind uint16, protocol byte, from, to netip.AddrPort) []byte {
	src, dst := uint16(nl.CTA_IP_V4_SRC), uint16(nl.CTA_IP_V4_DST)
	if from.Addr().Is6() {
		src, dst = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	return nest(b, kind, func(b []byte) []byte {
		b = nest(b, nl.CTA_TUPLE_IP, func(b []byte) []byte {
			b = attribute(b, src, from.Addr().WithZone("").AsSlice())
			return attribute(b, dst, to.Addr().WithZone("").AsSlice())
		})
		return nest(b, nl.CTA_TUPLE_PROTO, func(b []byte) []byte {
			b = attribute(b, nl.CTA_PROTO_NUM, []byte{protocol})
			b = attribute(b, nl.CTA_PROTO_SRC_PORT, binary.BigEndian.AppendUint16(nil, from.Port()))
			return attribute(b, nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, to.Port()))
		})
	})
}

func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func nest(b []byte, kind uint16, inside func([]byte) []byte) []byte {
	at := len(b)
	b = attribute(b, kind|unix.NLA_F_NESTED, nil)
	b = inside(b)
	binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at))
	return b
}

// errAnswer is the error of an answer without the tuple that was requested.
var errAnswer = errors.New("unexpected conntrack answer")

func flowAnswer(b []byte) (netip.AddrPort, error) {
	if len(b) < unix.SizeofNlMsghdr+nl.SizeofNfgenmsg {
		return netip.AddrPort{}, errAnswer
	}
	if kind := binary.NativeEndian.Uint16(b[4:]); kind == unix.NLMSG_ERROR {
		code := int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))
		return netip.AddrPort{}, syscall.Errno(-code)
	}
	dst, ok := destination.of(find(b[unix.SizeofNlMsghdr+nl.SizeofNfgenmsg:], nl.CTA_TUPLE_ORIG))
	if !ok {
		return netip.AddrPort{}, errAnswer
	}
	return dst, nil
}

// side is the attributes of the source or the destination of a tuple.
type side struct{ ipv4, ipv6, port uint16 }

var (
	source      = side{nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC, nl.CTA_PROTO_SRC_PORT}
	destination = side{nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST, nl.CTA_PROTO_DST_PORT}
)

func (s side) of(tuple []byte) (netip.AddrPort, bool) {
	ip := find(tuple, nl.CTA_TUPLE_IP)
	raw := find(ip, s.ipv4)
	if raw == nil {
		raw = find(ip, s.ipv6)
	}
	addr, ok := netip.AddrFromSlice(raw)
	port := find(find(tuple, nl.CTA_TUPLE_PROTO), s.port)
	if !ok || len(port) != 2 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(port)), true
}

// find returns the value of the first attribute of that kind, nil when there is none.
func find(b []byte, kind uint16) []byte {
	for len(b) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return nil
		}
		if binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED == kind {
			return b[unix.SizeofNlAttr:size]
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}
