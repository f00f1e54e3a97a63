// Package packetfilter compiles conditions on IP packets to programs of the classic BPF machine, by which the kernel
// copies to a socket only what is wanted. Conditions are built from Go, or parsed from a part of tcpdump's language:
//
//	user, err := packetfilter.Parse("tcp port 80 and not host 10.0.0.1")
//	program, err := packetfilter.Compile(packetfilter.And(user, packetfilter.Ports(packetfilter.Either, 80)), 262144)
//
// Programs look at the network header wherever it begins, so that one program is for all kinds of interfaces.
package packetfilter

import (
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"

	"github.com/portald/portald/platform/inet"
)

// Program is instructions of the kernel's machine.
type Program []bpf.RawInstruction

// Expr is a condition on a packet. It is immutable.
type Expr interface {
	// emit appends a test that jumps to yes for a packet that meets the condition, and goes on behind it otherwise.
	emit(a *assembler, yes *label)
}

// Direction tells which of the two addresses or ports of a packet is meant.
type Direction int

// The directions.
const (
	Either Direction = iota
	Source
	Destination
	Both
)

// maxInstructions is the kernel's limit (BPF_MAXINSNS).
const maxInstructions = 4096

// networkHeader is the offset by which the kernel's machine knows the network header (SKF_NET_OFF).
const networkHeader = 0xfff00000

// Compile returns the program that keeps so many bytes of a packet that meets the condition, and nothing of others.
func Compile(e Expr, bytes uint32) (Program, error) {
	return compileAt(networkHeader, e, bytes)
}

// compileAt compiles for packets whose network header is at an offset.
func compileAt(base uint32, e Expr, bytes uint32) (Program, error) {
	a, yes := &assembler{base: base}, &label{}
	e.emit(a, yes)
	a.add(bpf.RetConstant{Val: 0})
	a.place(yes)
	a.add(bpf.RetConstant{Val: bytes})
	if len(a.code) > maxInstructions {
		return nil, fmt.Errorf("the filter takes %d instructions, of which the kernel runs %d at most: make it shorter",
			len(a.code), maxInstructions)
	}
	return bpf.Assemble(a.resolved())
}

// assembler collects instructions, whose jumps are known once all are there.
type assembler struct {
	base  uint32
	code  []bpf.Instruction
	jumps []jump
}

// jump is an instruction that leads to a label.
type jump struct {
	at int
	to *label
}

// label is a place in the code.
type label struct{ at int }

func (a *assembler) add(code ...bpf.Instruction) { a.code = append(a.code, code...) }

func (a *assembler) place(l *label) { l.at = len(a.code) }

func (a *assembler) jump(to *label) {
	a.jumps = append(a.jumps, jump{len(a.code), to})
	a.add(bpf.Jump{})
}

// jumpIf jumps if the accumulator compares so. A conditional jump of the machine reaches 255 instructions, others all.
func (a *assembler) jumpIf(cond bpf.JumpTest, value uint32, to *label) {
	a.add(bpf.JumpIf{Cond: cond, Val: value, SkipFalse: 1})
	a.jump(to)
}

func (a *assembler) load(offset uint32, size int) {
	a.add(bpf.LoadAbsolute{Off: a.base + offset, Size: size})
}

func (a *assembler) resolved() []bpf.Instruction {
	for _, j := range a.jumps {
		a.code[j.at] = bpf.Jump{Skip: uint32(j.to.at - j.at - 1)}
	}
	return a.code
}

// And is met if all are.
func And(all ...Expr) Expr { return and(all) }

// Or is met if one is.
func Or(any ...Expr) Expr { return or(any) }

// Not is met if the other is not.
func Not(e Expr) Expr { return not{e} }

type (
	and []Expr
	or  []Expr
	not struct{ Expr }
)

func (e and) emit(a *assembler, yes *label) {
	no := &label{}
	for i, each := range e {
		if i == len(e)-1 {
			each.emit(a, yes)
			break
		}
		next := &label{}
		each.emit(a, next)
		a.jump(no)
		a.place(next)
	}
	a.place(no)
}

func (e or) emit(a *assembler, yes *label) {
	for _, each := range e {
		each.emit(a, yes)
	}
}

func (e not) emit(a *assembler, yes *label) {
	no := &label{}
	e.Expr.emit(a, no)
	a.jump(yes)
	a.place(no)
}

// Version is met by packets of IPv4 (4) or IPv6 (6).
func Version(v uint8) Expr { return version(v) }

type version uint8

func (v version) emit(a *assembler, yes *label) {
	a.load(0, 1)
	a.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0})
	a.jumpIf(bpf.JumpEqual, uint32(v)<<4, yes)
}

// family is met by packets of one version that meet the test.
func family(v version, test Expr) Expr { return and{v, test} }

// testFunc is a condition on a packet whose version is known.
type testFunc func(a *assembler, yes *label)

func (f testFunc) emit(a *assembler, yes *label) { f(a, yes) }

// Protocols is met by packets of these transport protocols. Extension headers of IPv6 are not followed.
func Protocols(numbers ...uint8) Expr {
	return or{family(4, protocolAt(9, numbers)), family(6, protocolAt(6, numbers))}
}

func protocolAt(offset uint32, numbers []uint8) testFunc {
	return func(a *assembler, yes *label) {
		a.load(offset, 1)
		for _, n := range numbers {
			a.jumpIf(bpf.JumpEqual, uint32(n), yes)
		}
	}
}

// of combines tests of the source and the destination.
func (d Direction) of(source, destination Expr) Expr {
	switch d {
	case Source:
		return source
	case Destination:
		return destination
	case Both:
		return and{source, destination}
	}
	return or{source, destination}
}

// Addresses is met by packets with an address in one of the prefixes.
func Addresses(d Direction, in ...netip.Prefix) Expr {
	var v4, v6 []netip.Prefix
	for _, p := range in {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return or{
		family(4, d.of(addressAt(12, v4), addressAt(16, v4))),
		family(6, d.of(addressAt(8, v6), addressAt(24, v6))),
	}
}

func addressAt(offset uint32, in []netip.Prefix) testFunc {
	return func(a *assembler, yes *label) {
		for _, p := range in {
			addressIn(offset, p).emit(a, yes)
		}
	}
}

// addressIn tests an address word by word.
func addressIn(offset uint32, p netip.Prefix) Expr {
	all := and{}
	address := p.Masked().Addr().AsSlice()
	for at := 0; at < len(address) && (at == 0 || at*8 < p.Bits()); at += 4 {
		bits := min(max(p.Bits()-at*8, 0), 32)
		mask := uint32(uint64(0xffffffff) << (32 - bits))
		value := uint32(address[at])<<24 | uint32(address[at+1])<<16 | uint32(address[at+2])<<8 | uint32(address[at+3])
		all = append(all, testFunc(func(a *assembler, yes *label) {
			a.load(offset+uint32(at), 4)
			a.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
			a.jumpIf(bpf.JumpEqual, value, yes)
		}))
	}
	return all
}

// transports are the protocols that have ports at the begin of their header.
var transports = []uint8{uint8(inet.TCP), uint8(inet.UDP), uint8(inet.SCTP)}

// Ports is met by packets of TCP, UDP or SCTP with one of the ports. Later fragments have none.
func Ports(d Direction, ports ...uint16) Expr {
	ranges := make([]PortRange, len(ports))
	for i, p := range ports {
		ranges[i] = PortRange{p, p}
	}
	return InPortRanges(d, ranges...)
}

// PortRange is the ports from one to another.
type PortRange struct{ First, Last uint16 }

// InPortRanges is met by packets of TCP, UDP or SCTP with a port in one of the ranges.
func InPortRanges(d Direction, ranges ...PortRange) Expr {
	v4 := func(offset uint32) Expr {
		return testFunc(func(a *assembler, yes *label) {
			a.add(bpf.LoadMemShift{Off: a.base}, bpf.LoadIndirect{Off: a.base + offset, Size: 2})
			inRanges(a, ranges, yes)
		})
	}
	v6 := func(offset uint32) Expr {
		return testFunc(func(a *assembler, yes *label) {
			a.load(40+offset, 2)
			inRanges(a, ranges, yes)
		})
	}
	return or{
		family(4, and{protocolAt(9, transports), testFunc(unfragmented), d.of(v4(0), v4(2))}),
		family(6, and{protocolAt(6, transports), d.of(v6(0), v6(2))}),
	}
}

// unfragmented is met by packets of IPv4 that have the transport header.
func unfragmented(a *assembler, yes *label) {
	a.load(6, 2)
	a.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x1fff})
	a.jumpIf(bpf.JumpEqual, 0, yes)
}

func inRanges(a *assembler, ranges []PortRange, yes *label) {
	for _, r := range ranges {
		if r.First == r.Last {
			a.jumpIf(bpf.JumpEqual, uint32(r.First), yes)
			continue
		}
		a.add(bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(r.First), SkipFalse: 2})
		a.add(bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(r.Last), SkipTrue: 1})
		a.jump(yes)
	}
}

// Flags is met by segments of TCP whose flags, of those in the mask, are equal to the value, or are not.
func Flags(mask, value uint8, equal bool) Expr {
	test := func(a *assembler, yes *label) {
		cond := bpf.JumpEqual
		if !equal {
			cond = bpf.JumpNotEqual
		}
		a.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(mask)})
		a.jumpIf(cond, uint32(value), yes)
	}
	v4 := testFunc(func(a *assembler, yes *label) {
		a.add(bpf.LoadMemShift{Off: a.base}, bpf.LoadIndirect{Off: a.base + 13, Size: 1})
		test(a, yes)
	})
	v6 := testFunc(func(a *assembler, yes *label) {
		a.load(40+13, 1)
		test(a, yes)
	})
	tcp := []uint8{uint8(inet.TCP)}
	return or{
		family(4, and{protocolAt(9, tcp), testFunc(unfragmented), v4}), family(6, and{protocolAt(6, tcp), v6}),
	}
}

// Length is met by frames of at least, or at most, so many bytes.
func Length(least bool, bytes uint32) Expr {
	return testFunc(func(a *assembler, yes *label) {
		a.add(bpf.LoadExtension{Num: bpf.ExtLen})
		if least {
			a.jumpIf(bpf.JumpGreaterOrEqual, bytes, yes)
			return
		}
		a.jumpIf(bpf.JumpLessOrEqual, bytes, yes)
	})
}
