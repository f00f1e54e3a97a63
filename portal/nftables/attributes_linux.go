package nftables

import (
	"encoding/binary"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// attributes is netlink's encoding of them, growing. A Replace writes some hundred thousand.
type attributes []byte

func (a *attributes) bytes(kind uint16, value []byte) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(unix.SizeofNlAttr+len(value)))
	*a = binary.NativeEndian.AppendUint16(*a, kind)
	*a = append(*a, value...)
	a.align()
}

func (a *attributes) align() {
	for len(*a)%unix.NLA_ALIGNTO != 0 {
		*a = append(*a, 0)
	}
}

func (a *attributes) string(kind uint16, value string) { a.bytes(kind, append([]byte(value), 0)) }

func (a *attributes) uint32(kind uint16, value uint32) {
	a.bytes(kind, binary.BigEndian.AppendUint32(nil, value))
}

// nest has what fill adds be the value of one attribute.
func (a *attributes) nest(kind uint16, fill func()) {
	start := len(*a)
	a.bytes(kind|unix.NLA_F_NESTED, nil)
	fill()
	binary.NativeEndian.PutUint16((*a)[start:], uint16(len(*a)-start))
}

// message is one of nftables' to a family.
func message(kind uint16, flags netlink.HeaderFlags, f family, a attributes) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{f.number(), unix.NFNETLINK_V0, 0, 0}, a...),
	}
}

func (f family) number() byte {
	return choose[byte](f.ip == service.IPv6, unix.NFPROTO_IPV6, unix.NFPROTO_IPV4)
}

// decode calls each with the attributes of a list.
func decode(list []byte, each func(*netlink.AttributeDecoder)) error {
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
