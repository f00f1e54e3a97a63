package nftables

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Registers hold 4 bytes each from 8 on, and 16 bytes each from 1 to 4, which are the same.
const (
	reg     = 1
	nextReg = 2
)

// words is where a register of 16 bytes begins among those of 4.
func words(register uint32) uint32 { return 8 + (register-1)*4 }

// program is the kernel's form of a rule.
type program struct {
	family
	expressions []expr.Any
	anonymous   []anonymous // sets that it brings along
	ids         *uint32     // the last number of a set in this transaction
}

// anonymous is a set that belongs to a rule.
type anonymous struct {
	set
	id     uint32
	filled []filled
}

func (p *program) add(e ...expr.Any) { p.expressions = append(p.expressions, e...) }

// bring makes a set of the rule's own, which a lookup names.
func (p *program) bring(s set, elements []filled) (name string, id uint32) {
	*p.ids++
	s.name = choose(s.data == nothing, "__set%d", "__map%d")
	p.anonymous = append(p.anonymous, anonymous{s, *p.ids, elements})
	return s.name, *p.ids
}

// statement adds one, with what the ones before left in the registers forgotten.
func (p *program) statement(s statement) {
	switch s := s.(type) {
	case protocols:
		p.protocols(s)
	case address:
		p.address(s)
	case outside:
		p.outside(s)
	case device:
		name := append([]byte(s.name), make([]byte, unix.IFNAMSIZ-len(s.name))...)
		if s.begins {
			name = []byte(s.name)
		}
		p.add(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg}, compare(s.not, name))
	case local:
		p.add(&expr.Fib{Register: reg, FlagSADDR: s.source, FlagDADDR: !s.source, ResultADDRTYPE: true},
			compare(false, native(unix.RTN_LOCAL)))
	case newFlow:
		p.bits(&expr.Ct{Key: expr.CtKeySTATE, Register: reg}, expr.CtStateBitNEW)
	case translated:
		p.bits(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg}, statusDNAT)
	case toPorts:
		p.protocols(protocols{s.protocol})
		p.load(byPort, reg)
		p.add(&expr.Cmp{Op: expr.CmpOpGte, Register: reg, Data: network(s.first)},
			&expr.Cmp{Op: expr.CmpOpLte, Register: reg, Data: network(s.last)})
	case opening:
		p.add(&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: tcpFlags, Len: 1},
			&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 1, Mask: []byte{fin | syn | rst | ack}, Xor: []byte{0}},
			compare(false, []byte{syn}))
	case marked:
		p.add(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg}, masked(s.bits, 0), compare(false, native(s.bits)))
	case mark:
		p.mark(masked(^s.bits, s.bits))
	case unmark:
		p.mark(masked(^s.bits, 0))
	case transparent:
		p.add(&expr.Socket{Key: expr.SocketKeyTransparent, Register: reg}, compare(false, []byte{1}),
			&expr.Socket{Key: expr.SocketKeyWildcard, Register: reg}, compare(false, []byte{0}))
	default:
		p.action(s)
	}
}

// Bits of TCP's flags and where they are, and of the state of translation that the kernel keeps of a flow.
const (
	fin, syn, rst, ack = 1, 2, 4, 16
	tcpFlags           = 13
	statusDNAT         = 1 << 5
)

func (p *program) action(s statement) {
	switch s := s.(type) {
	case member:
		p.key(s.of.key, reg)
		p.add(&expr.Lookup{SourceRegister: reg, SetName: s.of.name})
	case dispatch:
		p.key(s.by.key, reg)
		p.add(&expr.Lookup{SourceRegister: reg, SetName: s.by.name, IsDestRegSet: true})
	case redirect:
		p.redirect(s)
	case spreadBy:
		last := p.key(s.by.key[:len(s.by.key)-1], reg)
		p.add(&expr.Numgen{Register: last, Modulus: uint32(s.by.slots), Type: unix.NFT_NG_RANDOM},
			&expr.Lookup{SourceRegister: reg, SetName: s.by.name, DestRegister: reg, IsDestRegSet: true})
		p.translate(words(reg) + p.width())
	case spread:
		p.spread(s)
	case chance:
		p.add(&expr.Numgen{Register: reg, Modulus: uint32(s.of), Type: unix.NFT_NG_RANDOM}, compare(false, native(0)))
	case bound:
		p.bound(s)
		p.add(&expr.Lookup{SourceRegister: reg, SetName: s.in.name})
	case remember:
		p.bound(s.bound)
		p.add(&expr.Dynset{SrcRegKey: reg, SetName: s.in.name, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: s.long})
	case masquerade:
		p.add(&expr.Masq{FullyRandom: true})
	case reject:
		unreachable := uint8(choose(p.ip == service.IPv6, 4, 3)) // port unreachable
		p.add(choose(s.tcp, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST},
			&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: unreachable}))
	case verdict:
		p.add(&expr.Verdict{Kind: s.kind(), Chain: s.chain})
	default:
		panic(fmt.Sprintf("no expressions for %T", s))
	}
}

func (v verdict) kind() expr.VerdictKind {
	switch v.word {
	case "jump":
		return expr.VerdictJump
	case "goto":
		return expr.VerdictGoto
	case "return":
		return expr.VerdictReturn
	}
	return expr.VerdictDrop
}

// load has a register hold a part of a key.
func (p *program) load(part field, register uint32) {
	switch part {
	case bySource, byDestination:
		offset := uint32(choose(p.ip == service.IPv6, 8, 12))
		if part == byDestination {
			offset += p.width() * 4
		}
		p.add(&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: p.width() * 4})
	case byProtocol:
		p.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register})
	case byPort:
		p.add(&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2})
	}
}

// width is how many registers of 4 bytes an address takes.
func (f family) width() uint32 { return choose[uint32](f.ip == service.IPv6, 4, 1) }

// key loads a key, and tells which register comes after.
func (p *program) key(k key, register uint32) uint32 {
	next := words(register)
	for i, part := range k {
		p.load(part, choose(i == 0, register, next))
		next += choose(part == bySource || part == byDestination, p.width(), 1)
	}
	return next
}

func (p *program) protocols(s protocols) {
	p.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg})
	if len(s) == 1 {
		p.add(compare(false, []byte{byte(s[0])}))
		return
	}
	var elements []filled
	for _, one := range s {
		elements = append(elements, filled{entry: entry{element: element{protocol: one}}})
	}
	name, id := p.bring(set{key: key{byProtocol}}, elements)
	p.add(&expr.Lookup{SourceRegister: reg, SetName: name, SetID: id})
}

// address compares whole bytes where a prefix ends with one, as nft does.
func (p *program) address(s address) {
	offset := uint32(choose(p.ip == service.IPv6, 8, 12)) + choose(s.source, 0, p.width()*4)
	bits := s.prefix.Bits()
	length := (bits + 7) / 8
	if bits%8 != 0 {
		length = s.prefix.Addr().BitLen() / 8
	}
	p.add(&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(length)})
	if bits%8 != 0 {
		mask := make([]byte, length)
		for i := range bits {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		p.add(&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(length), Mask: mask, Xor: make([]byte, length)})
	}
	p.add(compare(s.not, s.prefix.Addr().AsSlice()[:length]))
}

func (p *program) outside(s outside) {
	if len(s) == 1 {
		p.address(s.only())
		return
	}
	p.load(bySource, reg)
	name, id := p.bring(set{key: key{bySource}, ranges: true}, s.intervals())
	p.add(&expr.Lookup{SourceRegister: reg, SetName: name, SetID: id, Invert: true})
}

func (p *program) redirect(s redirect) {
	register := uint32(reg)
	if s.to.IsValid() {
		p.add(&expr.Immediate{Register: reg, Data: s.to.AsSlice()})
		register = nextReg
	}
	p.key(s.by.key, register)
	p.add(&expr.Lookup{SourceRegister: register, SetName: s.by.name, DestRegister: register, IsDestRegSet: true})
	if s.to.IsValid() {
		p.add(&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(p.number()), RegAddrMin: reg, RegProtoMin: nextReg, Specified: true})
		return
	}
	p.add(&expr.Redir{RegisterProtoMin: reg, Flags: unix.NF_NAT_RANGE_PROTO_SPECIFIED})
}

func (p *program) spread(s spread) {
	if len(s) == 1 {
		p.add(&expr.Immediate{Register: reg, Data: s[0].Addr().AsSlice()}, &expr.Immediate{Register: nextReg, Data: network(s[0].Port())},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(p.number()), RegAddrMin: reg, RegProtoMin: nextReg, Specified: true})
		return
	}
	elements := make([]filled, len(s))
	for i, e := range s {
		elements[i] = filled{entry{element: element{slot: uint32(i)}}, value{endpoint: e}}
	}
	name, id := p.bring(set{key: key{bySlot}, data: endpoints}, elements)
	p.add(&expr.Numgen{Register: reg, Modulus: uint32(len(elements)), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: reg, SetName: name, SetID: id, DestRegister: reg, IsDestRegSet: true})
	p.translate(words(reg) + p.width())
}

// translate leads to the address in the first register and the port in another.
func (p *program) translate(port uint32) {
	p.add(&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(p.number()), RegAddrMin: reg, RegProtoMin: port})
}

// bound loads the client and the number.
func (p *program) bound(s bound) {
	next := p.key(key{bySource}, reg)
	p.add(&expr.Numgen{Register: next, Modulus: 1, Type: unix.NFT_NG_RANDOM, Offset: s.number})
}

func (p *program) mark(change expr.Any) {
	p.add(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg}, change,
		&expr.Meta{Key: expr.MetaKeyMARK, Register: reg, SourceRegister: true})
}

// bits matches if what is loaded has any of these.
func (p *program) bits(load expr.Any, bits uint32) {
	p.add(load, masked(bits, 0), &expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: native(0)})
}

func masked(mask, xor uint32) expr.Any {
	return &expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: native(mask), Xor: native(xor)}
}

func compare(not bool, with []byte) expr.Any {
	return &expr.Cmp{Op: choose(not, expr.CmpOpNeq, expr.CmpOpEq), Register: reg, Data: with}
}

func native(n uint32) []byte  { return binary.NativeEndian.AppendUint32(nil, n) }
func network(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
