// Package packets reads packets of this host's interfaces as the kernel shows them to AF_PACKET, and their headers. It
// knows no Service.
//
//	socket, err := packets.Open(packets.Options{Program: program})
//	err = socket.Read(100*time.Millisecond, func(f *packets.Frame) { ... })
package packets

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/packetfilter"
)

// Options say what a Socket receives.
type Options struct {
	Program packetfilter.Program // what the kernel keeps of a packet: see packetfilter
	Buffer  int                  // bytes for packets that were not read yet, at least 256 KiB
}

// ErrCapability is why a socket could not be opened: the process lacks a capability.
var ErrCapability = errors.New("to see packets takes the capability NET_RAW (CAP_NET_RAW)")

// Frame is a packet as an interface received or sent it.
type Frame struct {
	Time      int64  // in ns of Unix time
	Interface int    // its index
	Link      Link   // what Data begins with
	Outgoing  bool   // this host sends it
	Length    int    // of the whole packet, from the begin of Data on
	Network   int    // where in Data the header of IP begins
	Data      []byte // as much as was kept, valid during the call
}

// Link is the kind of header that a frame begins with, by its number in files of packets (LINKTYPE).
type Link uint16

// The kinds that are known.
const (
	Ethernet Link = 1
	Raw      Link = 101 // the header of IP
)

// MostHeaders is how many bytes the headers of a packet take at most: Ethernet with a tag, and the longest ones of IPv4
// and TCP.
const MostHeaders = 18 + 60 + 60

// Interface is an interface of this host.
type Interface struct {
	Index int
	Name  string
	Link  Link
}

// Flow is the addresses and ports of a packet.
type Flow struct {
	Protocol inet.Protocol
	From, To netip.AddrPort
}

// Reverse is the flow of the answers.
func (f Flow) Reverse() Flow { return Flow{f.Protocol, f.To, f.From} }

// Headers are what is read of a packet of TCP, UDP or SCTP.
type Headers struct {
	Flow
	End   int  // where in the frame's Data the payload begins
	Begin bool // of TCP: it asks for a connection, SYN without ACK
}

// Headers reads the headers of a frame. False: it is of none of these protocols, or cut before the ports.
func (f *Frame) Headers() (h Headers, ok bool) {
	ip := f.Data[min(f.Network, len(f.Data)):]
	if len(ip) < 20 {
		return h, false
	}
	var source, destination netip.Addr
	size := 40
	switch ip[0] >> 4 {
	case 4:
		size = int(ip[0]&15) * 4
		h.Protocol = inet.Protocol(ip[9])
		source, destination = address(ip[12:16]), address(ip[16:20])
		if size < 20 || binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 {
			return h, false
		}
	case 6:
		if len(ip) < 40 {
			return h, false
		}
		h.Protocol = inet.Protocol(ip[6])
		source, destination = address(ip[8:24]), address(ip[24:40])
	default:
		return h, false
	}
	transport := ip[min(size, len(ip)):]
	length, ok := transportSize(h.Protocol, transport)
	if !ok {
		return h, false
	}
	h.From = netip.AddrPortFrom(source, binary.BigEndian.Uint16(transport))
	h.To = netip.AddrPortFrom(destination, binary.BigEndian.Uint16(transport[2:]))
	h.End = min(f.Network+size+length, len(f.Data))
	h.Begin = h.Protocol == inet.TCP && len(transport) > 13 && transport[13]&0x12 == 2
	return h, true
}

func address(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// transportSize is the size of a transport header that begins here. False: it is not known.
func transportSize(p inet.Protocol, b []byte) (int, bool) {
	switch {
	case p == inet.TCP && len(b) > 12:
		return max(int(b[12]>>4)*4, 20), true
	case p == inet.UDP && len(b) >= 8:
		return 8, true
	case p == inet.SCTP && len(b) >= 12:
		return 12, true
	}
	return 0, false
}

// Drops are packets that the kernel had no room for.
type Drops struct{ Seen, Dropped uint64 }

// longestWait bounds how long the kernel holds packets back to pass on several at once.
const longestWait = 50 * time.Millisecond
