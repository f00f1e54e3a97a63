package nft

import (
	"fmt"
	"slices"

	"github.com/portald/portald/platform/nfnl"
)

// Expression is a value that rules compare, and look up in sets: a field of the packet, a property of its connection or
// socket, a number of its own, or a hash. This file is the table of all: text, netlink, declarations and elements of
// sets are made from an entry here.
type Expression struct {
	text     string
	kernel   string      // the kernel's name of this kind of expression
	register uint16      // of its attributes, the register that it loads
	numbers  []number    // its other attributes
	hashed   *Expression // what it is a hash of
	datatype datatype
	part     part  // which part of a set's element has such values
	typeof   []int // for sets: nft's number of the kind of expression, and what it keeps of one
}

// number is an attribute of an expression.
type number struct {
	attribute uint16
	value     uint32
}

// SAddr and daddr are the packet's addresses.
func (f Family) SAddr() Expression { return f.address("saddr", 0, sourceAddress) }
func (f Family) DAddr() Expression { return f.address("daddr", 1, destinationAddress) }

// nft's numbers of kinds of expressions and of headers (expression.h, proto.h), for typeof.
const (
	typeofPayload, typeofMeta, typeofConcat, typeofNumgen = 7, 9, 13, 23
	headerTransport, headerIPv4, headerIPv6               = 11, 12, 13
)

// address is the first or the second of the two addresses that end the header.
func (f Family) address(field string, second int, p part) Expression {
	size := f.addr.size
	return Expression{
		text:     f.Word + " " + field,
		kernel:   "payload",
		register: nfnl.NFTA_PAYLOAD_DREG,
		numbers:  payload(nfnl.NFT_PAYLOAD_NETWORK_HEADER, f.saddrOffset+uint32(second)*size, size),
		datatype: f.addr,
		part:     p,
		typeof:   []int{typeofPayload, f.header, f.saddrField + second},
	}
}

// payload is the place of a field in a header.
func payload(header, offset, size uint32) []number {
	return []number{{nfnl.NFTA_PAYLOAD_BASE, header}, {nfnl.NFTA_PAYLOAD_OFFSET, offset}, {nfnl.NFTA_PAYLOAD_LEN, size}}
}

// DPort is the destination port of any protocol that has ports.
func DPort() Expression {
	return Expression{
		text:     "th dport",
		kernel:   "payload",
		register: nfnl.NFTA_PAYLOAD_DREG,
		numbers:  payload(nfnl.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2),
		datatype: inetService(),
		part:     portNumber,
		typeof:   []int{typeofPayload, headerTransport, 2},
	}
}

// tcpFlags are the flags of a TCP packet.
func tcpFlags() Expression {
	return Expression{
		text:     "tcp flags",
		kernel:   "payload",
		register: nfnl.NFTA_PAYLOAD_DREG,
		numbers:  payload(nfnl.NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1),
		datatype: datatype{size: 1, bitmask: true},
	}
}

// L4Proto is the transport protocol.
func L4Proto() Expression {
	e := meta("l4proto", nfnl.NFT_META_L4PROTO, inetProto())
	e.part, e.typeof = protocolNumber, []int{typeofMeta, nfnl.NFT_META_L4PROTO}
	return e
}

// metaMark is the packet's mark.
func metaMark() Expression { return meta("mark", nfnl.NFT_META_MARK, integer()) }

// iifname is the name of the interface that the packet came in by.
func iifname() Expression {
	e := meta("iifname", nfnl.NFT_META_IIFNAME, datatype{size: maxInterface})
	e.text = "iifname"
	return e
}

func meta(field string, key uint32, t datatype) Expression {
	return Expression{
		text:     "meta " + field,
		kernel:   "meta",
		register: nfnl.NFTA_META_DREG,
		numbers:  []number{{nfnl.NFTA_META_KEY, key}},
		datatype: t,
	}
}

// ctState and ctStatus are conntrack's state and status of the packet's connection.
func ctState() Expression  { return ct("state", nfnl.NFT_CT_STATE) }
func ctStatus() Expression { return ct("status", nfnl.NFT_CT_STATUS) }

func ct(field string, key uint32) Expression {
	return Expression{
		text:     "ct " + field,
		kernel:   "ct",
		register: nfnl.NFTA_CT_DREG,
		numbers:  []number{{nfnl.NFTA_CT_KEY, key}},
		datatype: datatype{size: 4, bitmask: true},
	}
}

// fibType is the type of the source or destination address in the routing tables.
func fibType(source bool) Expression {
	flag := choose[uint32](source, nfnl.NFTA_FIB_F_SADDR, nfnl.NFTA_FIB_F_DADDR)
	return Expression{
		text:     choose(source, "fib saddr type", "fib daddr type"),
		kernel:   "fib",
		register: nfnl.NFTA_FIB_DREG,
		numbers:  []number{{nfnl.NFTA_FIB_FLAGS, flag}, {nfnl.NFTA_FIB_RESULT, nfnl.NFT_FIB_RESULT_ADDRTYPE}},
		datatype: datatype{size: 4},
	}
}

// socketTransparent and socketWildcard tell whether the packet's local socket may have an address of others, and
// whether it is bound to no address.
func socketTransparent() Expression { return socket("transparent", nfnl.NFT_SOCKET_TRANSPARENT) }
func socketWildcard() Expression    { return socket("wildcard", nfnl.NFT_SOCKET_WILDCARD) }

func socket(field string, key uint32) Expression {
	return Expression{
		text:     "socket " + field,
		kernel:   "socket",
		register: nfnl.NFTA_SOCKET_DREG,
		numbers:  []number{{nfnl.NFTA_SOCKET_KEY, key}, {nfnl.NFTA_SOCKET_LEVEL, 0}},
		datatype: datatype{size: 1},
	}
}

// Numgen is a random number from offset to below offset + mod.
func Numgen(mod, offset uint32) Expression {
	e := generator("random", nfnl.NFT_NG_RANDOM, mod, offset)
	if offset != 0 {
		e.text += fmt.Sprintf(" offset %d", offset)
	}
	return e
}

// Counter is 0 for the first packet that meets its rule, then 1, and 0 again after mod-1. A rule's is its own.
func Counter(mod uint32) Expression { return generator("inc", nfnl.NFT_NG_INCREMENTAL, mod, 0) }

func generator(word string, kind, mod, offset uint32) Expression {
	return Expression{
		text:     fmt.Sprintf("numgen %s mod %d", word, mod),
		kernel:   "numgen",
		register: nfnl.NFTA_NG_DREG,
		numbers:  []number{{nfnl.NFTA_NG_MODULUS, mod}, {nfnl.NFTA_NG_TYPE, kind}, {nfnl.NFTA_NG_OFFSET, offset}},
		datatype: integer(),
		part:     slotNumber,
		typeof:   []int{typeofNumgen, int(kind), int(mod), 0},
	}
}

// hashSeed is the same on all nodes, so that their hashes are.
const hashSeed = 0x70727464

// ClientHash is a hash of the packet's source address, from 0 to below mod, which is at least 2.
func (f Family) ClientHash(mod uint32) Expression {
	of := f.SAddr()
	return Expression{
		text:     fmt.Sprintf("jhash %s mod %d seed 0x%08x", of.text, mod, hashSeed),
		kernel:   "hash",
		register: nfnl.NFTA_HASH_DREG,
		numbers: []number{{nfnl.NFTA_HASH_LEN, of.datatype.size}, {nfnl.NFTA_HASH_MODULUS, mod},
			{nfnl.NFTA_HASH_SEED, hashSeed}},
		hashed:   &of,
		datatype: integer(),
		part:     slotNumber,
	}
}

// first is the first bytes of a payload field.
func (e Expression) first(size int) Expression {
	e.numbers = slices.Clone(e.numbers)
	for i := range e.numbers {
		if e.numbers[i].attribute == nfnl.NFTA_PAYLOAD_LEN {
			e.numbers[i].value = uint32(size)
		}
	}
	return e
}
