package nft

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
	left  Expression
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

func (m match) text(Family) string {
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

// NewConnection matches the first packets of connections, and translated the packets of connections with DNAT.
func NewConnection() Statement {
	return match{left: ctState(), right: constant{"new", native(nfnl.NF_CT_STATE_BIT_NEW)}}
}

func Translated() Statement {
	return match{left: ctStatus(), right: constant{"dnat", native(nfnl.IPS_DST_NAT)}}
}

// Confirmed matches packets of connections of which one has passed all rules before.
func Confirmed() Statement {
	return match{left: ctStatus(), right: constant{"confirmed", native(nfnl.IPS_CONFIRMED)}}
}

// LocalAddress matches addresses of this node.
func LocalAddress(source bool) Statement {
	return match{left: fibType(source), right: constant{"local", native(nfnl.RTN_LOCAL)}}
}

// maxInterface is the size of an interface's name in registers (IFNAMSIZ).
const maxInterface = 16

// FromInterface matches the interface that a packet came in by: by its name or, as a wildcard, the beginning of that.
func FromInterface(name string, wildcard, not bool) Statement {
	right := constant{`"` + name + `"`, append([]byte(name), make([]byte, maxInterface-len(name))...)}
	if wildcard {
		right = constant{`"` + name + `*"`, []byte(name)}
	}
	return match{left: iifname(), op: ifNot(not), right: right}
}

// TCPSYN matches the first packet of a TCP connection, after a match of the protocol.
func TCPSYN() Statement {
	const fin, syn, rst, ack = 1, 2, 4, 16
	return match{tcpFlags(), constant{"(fin | syn | rst | ack)", []byte{fin | syn | rst | ack}}, equal,
		constant{"syn", []byte{syn}}}
}

// Marked matches packets with a mark.
func Marked(bits uint32) Statement { return match{metaMark(), markBits(bits), equal, markBits(bits)} }

func markBits(bits uint32) constant { return constant{fmt.Sprintf("0x%08x", bits), native(bits)} }

// TransparentSocket matches packets for a socket of this host that is bound to an address of others.
func TransparentSocket() Rule {
	return Rule{match{left: socketTransparent(), right: constant{"1", []byte{1}}},
		match{left: socketWildcard(), right: constant{"0", []byte{0}}}}
}

// Is matches packets for which an expression has a number.
func Is(e Expression, n int) Statement {
	return match{left: e, op: equal, right: constant{strconv.Itoa(n), native(uint32(n))}}
}

// ProtocolIs matches transport protocols. The kernel demands it before a redirect or a translation of ports.
func ProtocolIs(protocols ...inet.Protocol) Statement {
	if p := protocols[0]; len(protocols) == 1 {
		return match{left: L4Proto(), right: constant{p.String(), []byte{byte(p)}}}
	}
	elements := make([]Element, len(protocols))
	for i, p := range protocols {
		elements[i].Protocol = p
	}
	return lookup{key: Key{L4Proto()}, in: literal(Key{L4Proto()}, elements)}
}

// prefixMatch matches addresses in a prefix, which is masked, or others.
type prefixMatch struct {
	left   Expression
	not    bool
	prefix netip.Prefix
}

func (f Family) From(p netip.Prefix, not bool) Statement { return prefixMatch{f.SAddr(), not, p} }
func (f Family) To(p netip.Prefix, not bool) Statement   { return prefixMatch{f.DAddr(), not, p} }

func (m prefixMatch) text(f Family) string {
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

// dportIn matches destination ports of one protocol.
type dportIn struct {
	protocol inet.Protocol
	ports    inet.PortRange
}

func (m dportIn) text(Family) string {
	return fmt.Sprintf("%s dport %s", m.protocol, m.ports)
}

func (m dportIn) encode(p *program) {
	ProtocolIs(m.protocol).encode(p)
	p.load(DPort(), nfnl.NFT_REG_1)
	p.compare(nfnl.NFT_CMP_GTE, network(m.ports.First))
	p.compare(nfnl.NFT_CMP_LTE, network(m.ports.Last))
}

func native(n uint32) []byte  { return binary.NativeEndian.AppendUint32(nil, n) }
func network(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

// DPortIn matches packets of one protocol to a range of ports.
func DPortIn(p inet.Protocol, ports inet.PortRange) Statement { return dportIn{p, ports} }
