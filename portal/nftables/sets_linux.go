package nftables

import (
	"encoding/binary"

	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Numbers by which nft knows the types of keys and data; the parts of a concatenation take typeBits each.
const (
	typeInteger = 4
	typeIPv4    = 7
	typeIPv6    = 8
	typeProto   = 12
	typeService = 13
	typeBits    = 6
)

// declare is the message that makes a set.
func (f family) declare(table string, s *set) netlink.Message {
	var a attributes
	a.string(unix.NFTA_SET_TABLE, table)
	a.string(unix.NFTA_SET_NAME, s.name)
	f.describe(&a, s, choose[uint32](s.dynamic, unix.NFT_SET_EVAL|unix.NFT_SET_TIMEOUT, 0))
	a.uint32(unix.NFTA_SET_ID, 0)
	a.bytes(unix.NFTA_SET_USERDATA, f.remarks(s))
	return message(unix.NFT_MSG_NEWSET, netlink.Create, f, a)
}

// declareAnonymous is declare for one that belongs to a rule.
func (f family) declareAnonymous(table string, s anonymous) netlink.Message {
	var a attributes
	a.string(unix.NFTA_SET_TABLE, table)
	a.string(unix.NFTA_SET_NAME, s.name)
	f.describe(&a, &s.set, unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)
	a.uint32(unix.NFTA_SET_ID, s.id)
	a.nest(unix.NFTA_SET_DESC, func() { a.uint32(unix.NFTA_SET_DESC_SIZE, uint32(len(s.filled))) })
	a.bytes(unix.NFTA_SET_USERDATA, f.remarks(&s.set))
	return message(unix.NFT_MSG_NEWSET, netlink.Create, f, a)
}

// describe adds flags and types.
func (f family) describe(a *attributes, s *set, flags uint32) {
	if s.data != nothing {
		flags |= unix.NFT_SET_MAP
	}
	if s.ranges {
		flags |= unix.NFT_SET_INTERVAL
	}
	a.uint32(unix.NFTA_SET_FLAGS, flags)
	kind, size := f.keyType(s.key)
	a.uint32(unix.NFTA_SET_KEY_TYPE, kind)
	a.uint32(unix.NFTA_SET_KEY_LEN, size)
	switch s.data {
	case verdicts:
		a.uint32(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT)
	case ports:
		a.uint32(unix.NFTA_SET_DATA_TYPE, typeService)
		a.uint32(unix.NFTA_SET_DATA_LEN, 2)
	case endpoints:
		kind, size := f.keyType(key{byDestination, byPort})
		a.uint32(unix.NFTA_SET_DATA_TYPE, kind)
		a.uint32(unix.NFTA_SET_DATA_LEN, size)
	}
}

// keyType is nft's number of the type, and the size in bytes.
func (f family) keyType(k key) (kind, size uint32) {
	for _, part := range k {
		switch part {
		case bySource, byDestination:
			kind, size = kind<<typeBits|choose[uint32](f.ip == service.IPv6, typeIPv6, typeIPv4), size+f.width()*4
		case byProtocol:
			kind, size = kind<<typeBits|typeProto, size+choose[uint32](len(k) > 1, 4, 1)
		case byPort:
			kind, size = kind<<typeBits|typeService, size+4
		case bySlot:
			kind, size = kind<<typeBits|typeInteger, size+4
		}
	}
	return kind, size
}

// remarks are for nft's eyes alone: in which order the bytes of a number stand, and what "typeof" was.
func (f family) remarks(s *set) []byte {
	const hostOrder = 1
	if s.key[len(s.key)-1] != bySlot {
		return userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, 2)
	}
	if len(s.key) == 1 {
		return userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, hostOrder)
	}
	b := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, 0)
	b = userdata.Append(b, userdata.NFTNL_UDATA_SET_KEY_TYPEOF, f.concatenation(s.key, s.slots))
	if s.data == nothing {
		return b
	}
	return userdata.Append(b, userdata.NFTNL_UDATA_SET_DATA_TYPEOF, f.concatenation(key{byDestination, byPort}, 0))
}

// nft's numbers of kinds of expressions, of headers, and of fields in these.
const (
	exprPayload, exprMeta, exprConcat, exprNumgen = 7, 9, 13, 23
	headerIPv4, headerIPv6, headerTransport       = 12, 13, 11
	fieldIPv4, fieldIPv6, fieldPort               = 12, 9, 2 // of the destination; that of the source is one less
)

// concatenation is what nft keeps of an expression, each level being pairs of a number and what that is.
func (f family) concatenation(k key, slots int) []byte {
	var parts []byte
	for i, part := range k {
		var one []byte
		switch part {
		case bySource:
			one = expression(exprPayload, choose(f.ip == service.IPv6, headerIPv6, headerIPv4), choose(f.ip == service.IPv6, fieldIPv6, fieldIPv4)-1)
		case byDestination:
			one = expression(exprPayload, choose(f.ip == service.IPv6, headerIPv6, headerIPv4), choose(f.ip == service.IPv6, fieldIPv6, fieldIPv4))
		case byProtocol:
			one = expression(exprMeta, unix.NFT_META_L4PROTO)
		case byPort:
			one = expression(exprPayload, headerTransport, fieldPort)
		case bySlot:
			one = expression(exprNumgen, unix.NFT_NG_RANDOM, slots, 0)
		}
		parts = userdata.Append(parts, userdata.Type(i), one)
	}
	return userdata.Append(userdata.AppendUint32(nil, 0, exprConcat), 1, parts)
}

func expression(kind uint32, about ...int) []byte {
	var details []byte
	for i, n := range about {
		details = userdata.AppendUint32(details, userdata.Type(i), uint32(n))
	}
	return userdata.Append(userdata.AppendUint32(nil, 0, kind), 1, details)
}

// maxElements keeps the list in a message below the 64 KiB that an attribute has.
const maxElements = 32 << 10

// elements are the messages that put elements into a set, or delete them.
func (f family) elements(kind uint16, table string, s *set, id uint32, all []filled) []netlink.Message {
	var out []netlink.Message
	for len(all) > 0 {
		var list attributes
		for len(all) > 0 && len(list) < maxElements {
			list.nest(unix.NFTA_LIST_ELEM, func() { f.element(&list, s, all[0], kind == unix.NFT_MSG_NEWSETELEM) })
			all = all[1:]
		}
		var a attributes
		a.string(unix.NFTA_SET_ELEM_LIST_TABLE, table)
		a.string(unix.NFTA_SET_ELEM_LIST_SET, s.name)
		if id != 0 {
			a.uint32(unix.NFTA_SET_ELEM_LIST_SET_ID, id)
		}
		a.bytes(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, list)
		out = append(out, message(kind, choose(kind == unix.NFT_MSG_NEWSETELEM, netlink.Create, 0), f, a))
	}
	return out
}

func (f family) element(a *attributes, s *set, e filled, full bool) {
	a.nest(unix.NFTA_SET_ELEM_KEY, func() { a.bytes(unix.NFTA_DATA_VALUE, f.keyBytes(s.key, e.element)) })
	if !full {
		return
	}
	if e.end {
		a.uint32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	if s.data != nothing {
		a.nest(unix.NFTA_SET_ELEM_DATA, func() { f.data(a, s.data, e.value) })
	}
	if e.comment != "" {
		a.bytes(unix.NFTA_SET_ELEM_USERDATA, userdata.AppendString(nil, userdata.NFTNL_UDATA_SET_ELEM_COMMENT, e.comment))
	}
}

func (f family) data(a *attributes, kind data, v value) {
	switch kind {
	case verdicts:
		a.nest(unix.NFTA_DATA_VERDICT, func() {
			a.uint32(unix.NFTA_VERDICT_CODE, uint32(v.verdict.kind()))
			a.string(unix.NFTA_VERDICT_CHAIN, v.verdict.chain)
		})
	case ports:
		a.bytes(unix.NFTA_DATA_VALUE, network(v.endpoint.Port()))
	case endpoints:
		a.bytes(unix.NFTA_DATA_VALUE, append(v.endpoint.Addr().AsSlice(), append(network(v.endpoint.Port()), 0, 0)...))
	}
}

// keyBytes fills each part up to four bytes, unless it is alone.
func (f family) keyBytes(k key, e element) []byte {
	var b []byte
	for _, part := range k {
		switch part {
		case bySource:
			b = append(b, e.source.AsSlice()...)
		case byDestination:
			b = append(b, e.destination.AsSlice()...)
		case byProtocol:
			b = append(b, byte(e.protocol))
			if len(k) > 1 {
				b = append(b, 0, 0, 0)
			}
		case byPort:
			b = append(binary.BigEndian.AppendUint16(b, e.port), 0, 0)
		case bySlot:
			b = binary.NativeEndian.AppendUint32(b, e.slot)
		}
	}
	return b
}
