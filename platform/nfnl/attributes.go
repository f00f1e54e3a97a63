package nfnl

import (
	"encoding/binary"

	"github.com/mdlayher/netlink"
)

// Netlink's layout of attributes (linux/netlink.h): a length and a type of two bytes each, then the value, padded.
const (
	attributeHeader = 4
	alignment       = 4
	nested          = 1 << 15 // NLA_F_NESTED
)

// Attributes is a list of netlink attributes in wire format, which grows. Numbers are big-endian, as nf_tables has
// them.
type Attributes []byte

// Bytes appends an attribute.
func (a *Attributes) Bytes(kind uint16, value []byte) {
	a.header(kind, len(value))
	*a = append(*a, value...)
	a.align()
}

// String appends a string, which ends with a zero byte.
func (a *Attributes) String(kind uint16, value string) {
	a.header(kind, len(value)+1)
	*a = append(append(*a, value...), 0)
	a.align()
}

// Uint8 appends a number of one byte.
func (a *Attributes) Uint8(kind uint16, value uint8) { a.Bytes(kind, []byte{value}) }

// Uint32 appends a number.
func (a *Attributes) Uint32(kind uint16, value uint32) {
	a.header(kind, 4)
	*a = binary.BigEndian.AppendUint32(*a, value)
}

// Uint64 appends a number.
func (a *Attributes) Uint64(kind uint16, value uint64) {
	a.header(kind, 8)
	*a = binary.BigEndian.AppendUint64(*a, value)
}

// List appends a list of attributes as the value of one.
func (a *Attributes) List(kind uint16, value Attributes) { a.Bytes(kind|nested, value) }

// Nest appends an attribute whose value fill appends.
func (a *Attributes) Nest(kind uint16, fill func()) {
	start := len(*a)
	a.header(kind|nested, 0)
	fill()
	binary.NativeEndian.PutUint16((*a)[start:], uint16(len(*a)-start))
}

func (a *Attributes) header(kind uint16, size int) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(attributeHeader+size))
	*a = binary.NativeEndian.AppendUint16(*a, kind)
}

func (a *Attributes) align() {
	for len(*a)%alignment != 0 {
		*a = append(*a, 0)
	}
}

// Decoder reads a list of attributes.
type Decoder = netlink.AttributeDecoder

// Decode calls each for every attribute of a list.
func Decode(list []byte, each func(*Decoder)) error {
	d, err := netlink.NewAttributeDecoder(list)
	if err != nil {
		return err
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		each(d)
	}
	return d.Err()
}
