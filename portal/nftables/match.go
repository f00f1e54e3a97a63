package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
)

// match compares an expression, or some bits of it, with a constant.
type match struct {
	left  expression
	mask  constant // none = all bits
	op    operator
	right constant
}

// constant is a value, in nft's text and in registers' bytes.
type constant struct {
	text  string
	bytes []byte
}

// operator is nft's. The implicit one compares for equality, except bitmasks, of which it matches any common bit.
type operator string

const (
	implicit operator = ""
	equal    operator = " =="
	notEqual operator = " !="
)

func (m match) text(family) string {
	mask := ""
	if m.mask.bytes != nil {
		mask = " & " + m.mask.text
	}
	return m.left.text + mask + string(m.op) + " " + m.right.text
}

func (m match) encode(p *program) {
	p.load(m.left, nfnl.NFT_REG_1)
	if m.op == implicit && m.left.datatype.bitmask {
		zero := make([]byte, len(m.right.bytes))
		p.bitwise(m.right.bytes, zero)
		p.compare(nfnl.NFT_CMP_NEQ, zero)
		return
	}
	if m.mask.bytes != nil {
		p.bitwise(m.mask.bytes, make([]byte, len(m.mask.bytes)))
	}
	p.compare(choose[uint32](m.op == notEqual, nfnl.NFT_CMP_NEQ, nfnl.NFT_CMP_EQ), m.right.bytes)
}

// ifNot is the operator of a match, which may be negated.
func ifNot(not bool) operator { return choose(not, notEqual, implicit) }

// newConnection matches the first packets of connections, and translated those of connections with DNAT.
func newConnection() match {
	return match{left: ctState(), right: constant{"new", native(nfnl.NF_CT_STATE_BIT_NEW)}}
}

func translated() match {
	return match{left: ctStatus(), right: constant{"dnat", native(nfnl.IPS_DST_NAT)}}
}

// confirmed matches packets of connections of which one has passed all rules before.
func confirmed() match {
	return match{left: ctStatus(), right: constant{"confirmed", native(nfnl.IPS_CONFIRMED)}}
}

// localAddress matches addresses of this node.
func localAddress(source bool) match {
	return match{left: fibType(source), right: constant{"local", native(nfnl.RTN_LOCAL)}}
}

// maxInterface is the size of an interface's name in registers (IFNAMSIZ).
const maxInterface = 16

// fromInterface matches the interface that a packet came in by: by its name or, as a wildcard, the beginning of that.
func fromInterface(name string, wildcard, not bool) match {
	right := constant{`"` + name + `"`, append([]byte(name), make([]byte, maxInterface-len(name))...)}
	if wildcard {
		right = constant{`"` + name + `*"`, []byte(name)}
	}
	return match{left: iifname(), op: ifNot(not), right: right}
}

// tcpSYN matches the first packet of a TCP connection, after a match of the protocol.
func tcpSYN() match {
	const fin, syn, rst, ack = 1, 2, 4, 16
	return match{tcpFlags(), constant{"(fin | syn | rst | ack)", []byte{fin | syn | rst | ack}}, equal,
		constant{"syn", []byte{syn}}}
}

// marked matches packets with a mark.
func marked(bits uint32) match { return match{metaMark(), markBits(bits), equal, markBits(bits)} }

func markBits(bits uint32) constant { return constant{fmt.Sprintf("0x%08x", bits), native(bits)} }

// transparentSocket matches packets for a socket of this host that is bound to an address of others.
func transparentSocket() rule {
	return rule{match{left: socketTransparent(), right: constant{"1", []byte{1}}},
		match{left: socketWildcard(), right: constant{"0", []byte{0}}}}
}

// is matches packets for which an expression has a number.
func is(e expression, n int) match {
	return match{left: e, op: equal, right: constant{strconv.Itoa(n), native(uint32(n))}}
}

// protocolIs matches transport protocols. The kernel demands it before a redirect or a translation of ports.
func protocolIs(protocols ...inet.Protocol) statement {
	if p := protocols[0]; len(protocols) == 1 {
		return match{left: l4proto(), right: constant{p.String(), []byte{byte(p)}}}
	}
	elements := make([]element, len(protocols))
	for i, p := range protocols {
		elements[i].protocol = p
	}
	return lookup{key: key{l4proto()}, in: literal(key{l4proto()}, elements)}
}

// prefixMatch matches addresses in a prefix, which is masked, or others.
type prefixMatch struct {
	left   expression
	not    bool
	prefix netip.Prefix
}

func (f family) from(p netip.Prefix, not bool) prefixMatch { return prefixMatch{f.saddr(), not, p} }
func (f family) to(p netip.Prefix, not bool) prefixMatch   { return prefixMatch{f.daddr(), not, p} }

func (m prefixMatch) text(f family) string {
	return match{left: m.left, op: ifNot(m.not), right: constant{text: prefixText(m.prefix)}}.text(f)
}

// encode compares whole bytes where the prefix ends with one, as nft does.
func (m prefixMatch) encode(p *program) {
	addr, bits := m.prefix.Addr().AsSlice(), m.prefix.Bits()
	if bits%8 == 0 {
		addr = addr[:bits/8]
		match{left: m.left.first(bits / 8), op: ifNot(m.not), right: constant{bytes: addr}}.encode(p)
		return
	}
	mask := make([]byte, len(addr))
	for i := range bits {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	match{m.left, constant{bytes: mask}, ifNot(m.not), constant{bytes: addr}}.encode(p)
}

// portRange matches destination ports of one protocol.
type portRange struct {
	protocol    inet.Protocol
	first, last uint16
}

func (m portRange) text(family) string {
	return fmt.Sprintf("%s dport %d-%d", m.protocol, m.first, m.last)
}

func (m portRange) encode(p *program) {
	protocolIs(m.protocol).encode(p)
	p.load(dport(), nfnl.NFT_REG_1)
	p.compare(nfnl.NFT_CMP_GTE, network(m.first))
	p.compare(nfnl.NFT_CMP_LTE, network(m.last))
}

func native(n uint32) []byte  { return binary.NativeEndian.AppendUint32(nil, n) }
func network(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
