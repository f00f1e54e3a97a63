package nft

import (
	"fmt"
	"strings"

	"github.com/portald/portald/platform/nfnl"
)

// setMark sets bits of the packet's mark, or else clears them.
type setMark struct {
	bits  uint32
	clear bool
}

// Mark sets bits of the packet's mark, and Unmark clears them.
func Mark(bits uint32) Statement   { return setMark{bits: bits} }
func Unmark(bits uint32) Statement { return setMark{bits: bits, clear: true} }

func (s setMark) text(Family) string {
	if s.clear {
		return fmt.Sprintf("meta mark set meta mark & 0x%08x", ^s.bits)
	}
	return fmt.Sprintf("meta mark set meta mark | 0x%08x", s.bits)
}

func (s setMark) encode(p *program) {
	p.load(metaMark(), nfnl.NFT_REG_1)
	p.bitwise(native(^s.bits), native(choose(s.clear, 0, s.bits)))
	p.add("meta", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_META_KEY, nfnl.NFT_META_MARK)
		a.Uint32(nfnl.NFTA_META_SREG, nfnl.NFT_REG_1)
	})
}

// reject answers "connection refused".
type reject struct{ tcp bool }

func (s reject) text(Family) string { return choose(s.tcp, "reject with tcp reset", "reject") }

func (s reject) encode(p *program) {
	p.add("reject", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_REJECT_TYPE, choose[uint32](s.tcp, nfnl.NFT_REJECT_TCP_RST, nfnl.NFT_REJECT_ICMP_UNREACH))
		a.Uint8(nfnl.NFTA_REJECT_ICMP_CODE, choose(s.tcp, 0, p.family.portUnreachable))
	})
}

// Verdict ends the rule: with the packet, or in another chain.
type Verdict struct {
	code  int32  // the kernel's
	chain string // of jump and goto
}

// Jump, Goto, Drop and Return are the verdicts of rules here.
func Jump(chain string) Verdict { return Verdict{nfnl.NFT_JUMP, chain} }
func Goto(chain string) Verdict { return Verdict{nfnl.NFT_GOTO, chain} }
func Drop() Verdict             { return Verdict{code: nfnl.NF_DROP} }
func Return() Verdict           { return Verdict{code: nfnl.NFT_RETURN} }

func (v Verdict) text(Family) string { return strings.TrimSuffix(v.word()+" "+v.chain, " ") }

func (v Verdict) word() string {
	switch v.code {
	case nfnl.NFT_JUMP:
		return "jump"
	case nfnl.NFT_GOTO:
		return "goto"
	case nfnl.NFT_RETURN:
		return "return"
	case nfnl.NF_DROP:
		return "drop"
	}
	return fmt.Sprintf("verdict %d", v.code) // of other programs
}

func (v Verdict) encode(p *program) {
	p.add("immediate", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_IMMEDIATE_DREG, nfnl.NFT_REG_VERDICT)
		a.Nest(nfnl.NFTA_IMMEDIATE_DATA, func() { v.append(a) })
	})
}

// append appends the verdict, as rules and verdict maps have it.
func (v Verdict) append(a *nfnl.Attributes) {
	a.Nest(nfnl.NFTA_DATA_VERDICT, func() {
		a.Uint32(nfnl.NFTA_VERDICT_CODE, uint32(v.code))
		if v.chain != "" {
			a.String(nfnl.NFTA_VERDICT_CHAIN, v.chain)
		}
	})
}

// parseVerdict reads what append writes.
func parseVerdict(list []byte) (v Verdict, err error) {
	err = nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_VERDICT_CODE:
			v.code = int32(d.Uint32())
		case nfnl.NFTA_VERDICT_CHAIN:
			v.chain = d.String()
		}
	})
	return v, err
}

// Reject answers with ICMP's "port unreachable", which clients see as "connection refused".
func Reject() Statement { return reject{} }

// RejectTCP answers with a reset. It needs a match of the protocol before it.
func RejectTCP() Statement { return reject{tcp: true} }
