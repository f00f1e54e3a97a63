package nftables

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/portald/portald/platform/inet"
)

// element is a key of a set, or data of a map. It has the parts that the set declares.
type element struct {
	source, destination netip.Addr
	protocol            inet.Protocol
	port                uint16
	slot                uint32
	end                 bool // of an interval, which does not include it
}

// part is a part of an element.
type part uint8

const (
	_ part = iota // of expressions that no set has
	sourceAddress
	destinationAddress
	protocolNumber
	portNumber
	slotNumber
)

func (p part) text(e element) string {
	switch p {
	case sourceAddress:
		return e.source.String()
	case destinationAddress:
		return e.destination.String()
	case protocolNumber:
		return e.protocol.String()
	case portNumber:
		return strconv.Itoa(int(e.port))
	}
	return strconv.Itoa(int(e.slot))
}

// append appends the value in a register's bytes.
func (p part) append(b []byte, e element) []byte {
	switch p {
	case sourceAddress:
		return appendAddr(b, e.source)
	case destinationAddress:
		return appendAddr(b, e.destination)
	case protocolNumber:
		return append(b, byte(e.protocol))
	case portNumber:
		return binary.BigEndian.AppendUint16(b, e.port)
	}
	return binary.NativeEndian.AppendUint32(b, e.slot)
}

func appendAddr(b []byte, addr netip.Addr) []byte {
	if addr.Is4() {
		four := addr.As4()
		return append(b, four[:]...)
	}
	sixteen := addr.As16()
	return append(b, sixteen[:]...)
}

// parse reads what append writes, of the same length.
func (p part) parse(b []byte, e *element) {
	switch p {
	case sourceAddress:
		e.source, _ = netip.AddrFromSlice(b)
	case destinationAddress:
		e.destination, _ = netip.AddrFromSlice(b)
	case protocolNumber:
		e.protocol = inet.Protocol(b[0])
	case portNumber:
		e.port = binary.BigEndian.Uint16(b)
	case slotNumber:
		e.slot = binary.NativeEndian.Uint32(b)
	}
}

func (e element) compare(o element) int {
	return cmp.Or(e.destination.Compare(o.destination), e.source.Compare(o.source),
		cmp.Compare(e.protocol, o.protocol), cmp.Compare(e.port, o.port), cmp.Compare(e.slot, o.slot))
}
