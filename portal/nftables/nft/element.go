package nft

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/portald/portald/platform/inet"
)

// Element is a key of a set, or data of a map. It has the parts that the set declares.
type Element struct {
	Source, Destination netip.Addr
	Protocol            inet.Protocol
	Port                uint16
	Slot                uint32
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

func (p part) text(e Element) string {
	switch p {
	case sourceAddress:
		return e.Source.String()
	case destinationAddress:
		return e.Destination.String()
	case protocolNumber:
		return e.Protocol.String()
	case portNumber:
		return strconv.Itoa(int(e.Port))
	}
	return strconv.Itoa(int(e.Slot))
}

// append appends the value in a register's bytes.
func (p part) append(b []byte, e Element) []byte {
	switch p {
	case sourceAddress:
		return appendAddr(b, e.Source)
	case destinationAddress:
		return appendAddr(b, e.Destination)
	case protocolNumber:
		return append(b, byte(e.Protocol))
	case portNumber:
		return binary.BigEndian.AppendUint16(b, e.Port)
	}
	return binary.NativeEndian.AppendUint32(b, e.Slot)
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
func (p part) parse(b []byte, e *Element) {
	switch p {
	case sourceAddress:
		e.Source, _ = netip.AddrFromSlice(b)
	case destinationAddress:
		e.Destination, _ = netip.AddrFromSlice(b)
	case protocolNumber:
		e.Protocol = inet.Protocol(b[0])
	case portNumber:
		e.Port = binary.BigEndian.Uint16(b)
	case slotNumber:
		e.Slot = binary.NativeEndian.Uint32(b)
	}
}

func (e Element) Compare(o Element) int {
	return cmp.Or(e.Destination.Compare(o.Destination), e.Source.Compare(o.Source),
		cmp.Compare(e.Protocol, o.Protocol), cmp.Compare(e.Port, o.Port), cmp.Compare(e.Slot, o.Slot))
}
