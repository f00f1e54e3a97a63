package flows

import (
	"encoding/binary"
	"net/netip"

	"github.com/portald/portald/platform/inet"
)

// Flow is an entry of the conntrack table, as the kernel describes it in events and lists. A zero field is not known,
// unless it says otherwise.
type Flow struct {
	Protocol  inet.Protocol
	From, To  netip.AddrPort // of the first packet, as its sender wrote it
	Replier   netip.AddrPort // who answers
	Answering netip.AddrPort // to whom it answers: From, or the address that masquerades it
	Status    Status
	State     State // of TCP
	SCTP      SCTPState
	Timeout   uint32 // in seconds, until the entry would have expired
	Sent      Count  // in the direction of the first packet
	Returned  Count
	Start     int64 // in ns since 1970, as Stop
	Stop      int64 // when the entry was removed, or expired
	ID        uint32
}

// Count has the packets and bytes of one direction: IP packets as the host saw them, with their headers.
type Count struct{ Packets, Bytes uint64 }

// Status is the bits of a flow: IPS_… of linux/netfilter/nf_conntrack_common.h.
type Status uint32

// The bits that count here.
const (
	SeenReply Status = 1 << 1 // IPS_SEEN_REPLY: packets came back
	Assured   Status = 1 << 2 // IPS_ASSURED: TCP: the handshake was completed; UDP: packets both ways for two seconds
)

// State is a state of TCP as conntrack sees it: enum tcp_conntrack of linux/netfilter/nf_conntrack_tcp.h.
type State uint8

// The states.
const (
	StateUnknown State = iota // before Linux 5.11 events do not tell it
	SynSent
	SynRecv
	Established
	FinWait
	CloseWait
	LastAck
	TimeWait
	Closed // reset
	SynSent2
)

// String is the kernel's name of the state.
func (s State) String() string {
	names := [...]string{"", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT",
		"CLOSE", "SYN_SENT2"}
	if int(s) < len(names) {
		return names[s]
	}
	return ""
}

// SCTPState is a state of SCTP as conntrack sees it: enum sctp_conntrack of linux/netfilter/nf_conntrack_sctp.h.
type SCTPState uint8

// The states, but for later ones, which are names of their own alone.
const (
	SCTPUnknown SCTPState = iota // before Linux 5.11 events do not tell it
	SCTPClosed                   // shut down, or aborted: the kernel does not tell them apart
	SCTPCookieWait
	SCTPCookieEchoed
	SCTPEstablished
)

// String is the kernel's name of the state.
func (s SCTPState) String() string {
	names := [...]string{"", "CLOSED", "COOKIE_WAIT", "COOKIE_ECHOED", "ESTABLISHED", "SHUTDOWN_SENT", "SHUTDOWN_RECD",
		"SHUTDOWN_ACK_SENT", "HEARTBEAT_SENT", "HEARTBEAT_ACKED"}
	if int(s) < len(names) {
		return names[s]
	}
	return ""
}

// Attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	ctaTupleOrig     = 1
	ctaTupleReply    = 2
	ctaStatus        = 3
	ctaProtoinfo     = 4
	ctaTimeout       = 7
	ctaCountersOrig  = 9
	ctaCountersReply = 10
	ctaID            = 12
	ctaTimestamp     = 20

	ctaTupleIP    = 1
	ctaTupleProto = 2
	ctaIPv4Src    = 1
	ctaIPv4Dst    = 2
	ctaIPv6Src    = 3
	ctaIPv6Dst    = 4
	ctaProtoNum   = 1
	ctaProtoSrc   = 2
	ctaProtoDst   = 3

	ctaProtoinfoTCP   = 1
	ctaProtoinfoSCTP  = 3
	ctaProtoinfoState = 1 // of either
	ctaPackets        = 1
	ctaBytes          = 2
	ctaStart          = 1
	ctaStop           = 2

	attributeHeader = 4
	attributeKind   = 0x3fff // without the bits that say how the value is written
)

// Parse reads the attributes of a flow as platform.ListFlows has them. False: it is not a flow of TCP, UDP or SCTP.
func Parse(b []byte) (f Flow, ok bool) {
	ok = f.parse(b)
	return f, ok
}

// parse reads the attributes of a flow, without trust in their shape, and allocates nothing. False: it is not a flow of
// TCP, UDP or SCTP.
func (f *Flow) parse(b []byte) bool {
	*f = Flow{}
	var kind uint16
	var value []byte
	for {
		if kind, value, b = next(b); value == nil {
			break
		}
		switch kind {
		case ctaTupleOrig:
			f.From, f.To, f.Protocol = tuple(value)
		case ctaTupleReply:
			f.Replier, f.Answering, _ = tuple(value)
		case ctaStatus:
			f.Status = Status(number(value))
		case ctaProtoinfo:
			f.State = State(number(find(find(value, ctaProtoinfoTCP), ctaProtoinfoState)))
			f.SCTP = SCTPState(number(find(find(value, ctaProtoinfoSCTP), ctaProtoinfoState)))
		case ctaTimeout:
			f.Timeout = uint32(number(value))
		case ctaCountersOrig:
			f.Sent = count(value)
		case ctaCountersReply:
			f.Returned = count(value)
		case ctaID:
			f.ID = uint32(number(value))
		case ctaTimestamp:
			f.Start, f.Stop = int64(number(find(value, ctaStart))), int64(number(find(value, ctaStop)))
		}
	}
	known := f.Protocol == inet.TCP || f.Protocol == inet.UDP || f.Protocol == inet.SCTP
	return known && f.To.IsValid() && f.Replier.IsValid()
}

// next returns the first attribute, and what follows it; a nil value: there is none.
func next(b []byte) (kind uint16, value, rest []byte) {
	if len(b) < attributeHeader {
		return 0, nil, nil
	}
	size := int(binary.NativeEndian.Uint16(b))
	if size < attributeHeader || size > len(b) {
		return 0, nil, nil
	}
	return binary.NativeEndian.Uint16(b[2:]) & attributeKind, b[attributeHeader:size:size], b[min(len(b), (size+3)&^3):]
}

// find returns the value of the first attribute of that kind, nil if there is none.
func find(b []byte, wanted uint16) []byte {
	for {
		kind, value, rest := next(b)
		if value == nil || kind == wanted {
			return value
		}
		b = rest
	}
}

// number reads a number in network order, of up to 8 bytes.
func number(b []byte) (n uint64) {
	for _, one := range b[:min(len(b), 8)] {
		n = n<<8 | uint64(one)
	}
	return n
}

func count(b []byte) Count { return Count{number(find(b, ctaPackets)), number(find(b, ctaBytes))} }

func tuple(b []byte) (src, dst netip.AddrPort, protocol inet.Protocol) {
	ip, proto := find(b, ctaTupleIP), find(b, ctaTupleProto)
	protocol = inet.Protocol(number(find(proto, ctaProtoNum)))
	from, to := find(ip, ctaIPv4Src), find(ip, ctaIPv4Dst)
	if from == nil {
		from, to = find(ip, ctaIPv6Src), find(ip, ctaIPv6Dst)
	}
	srcAddr, ok1 := netip.AddrFromSlice(from)
	dstAddr, ok2 := netip.AddrFromSlice(to)
	if !ok1 || !ok2 {
		return netip.AddrPort{}, netip.AddrPort{}, protocol
	}
	src = netip.AddrPortFrom(srcAddr, uint16(number(find(proto, ctaProtoSrc))))
	dst = netip.AddrPortFrom(dstAddr, uint16(number(find(proto, ctaProtoDst))))
	return src, dst, protocol
}
