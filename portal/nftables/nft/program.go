package nft

import (
	"github.com/portald/portald/platform/nfnl"
)

// program is a rule as the kernel has it: expressions that load registers, compute with them, and act.
type program struct {
	family      Family
	expressions nfnl.Attributes
	anonymous   []anonymous // sets that belong to the rule
	ids         *uint32     // the last id of an anonymous set of the table
}

// anonymous is an anonymous set, with its name and id in a transaction.
type anonymous struct {
	*Set
	name string // a pattern, from which the kernel makes a name
	id   uint32
}

// register32 is the first of the four registers of 4 bytes that make up one of 16 bytes.
func register32(register uint32) uint32 { return nfnl.NFT_REG32_00 + (register-nfnl.NFT_REG_1)*4 }

// Encode translates a rule.
func (f Family) encode(r Rule, ids *uint32) *program {
	p := &program{family: f, ids: ids}
	for _, s := range r {
		s.encode(p)
	}
	return p
}

// add appends an expression by its name in the kernel, with its attributes.
func (p *program) add(kernel string, fill func(*nfnl.Attributes)) {
	a := &p.expressions
	a.Nest(nfnl.NFTA_LIST_ELEM, func() {
		a.String(nfnl.NFTA_EXPR_NAME, kernel)
		a.Nest(nfnl.NFTA_EXPR_DATA, func() { fill(a) })
	})
}

// load loads an expression into a register.
func (p *program) load(e Expression, register uint32) {
	if e.hashed != nil {
		p.load(*e.hashed, register)
	}
	p.add(e.kernel, func(a *nfnl.Attributes) {
		a.Uint32(e.register, register)
		if e.hashed != nil {
			a.Uint32(nfnl.NFTA_HASH_SREG, register)
		}
		for _, n := range e.numbers {
			a.Uint32(n.attribute, n.value)
		}
	})
}

// loadKey loads a key into a register and those that follow.
func (p *program) loadKey(k Key, register uint32) {
	next := register32(register)
	for i, e := range k {
		p.load(e, choose(i == 0, register, next))
		next += uint32(k.width(e)+registerSize-1) / registerSize
	}
}

// bitwise ands the first register with a mask, and xors it.
func (p *program) bitwise(mask, xor []byte) {
	p.add("bitwise", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_BITWISE_SREG, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_BITWISE_DREG, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_BITWISE_LEN, uint32(len(mask)))
		appendData(a, nfnl.NFTA_BITWISE_MASK, mask)
		appendData(a, nfnl.NFTA_BITWISE_XOR, xor)
	})
}

// compare ends the rule unless the first register and data compare by op.
func (p *program) compare(op uint32, data []byte) {
	p.add("cmp", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_CMP_SREG, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_CMP_OP, op)
		appendData(a, nfnl.NFTA_CMP_DATA, data)
	})
}

// immediate loads a constant.
func (p *program) immediate(register uint32, data []byte) {
	p.add("immediate", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_IMMEDIATE_DREG, register)
		appendData(a, nfnl.NFTA_IMMEDIATE_DATA, data)
	})
}

// mapData loads the data of a key, which is in a register.
func (p *program) mapData(s *Set, key, data uint32) {
	name, id := p.reference(s)
	p.add("lookup", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_LOOKUP_SREG, key)
		a.Uint32(nfnl.NFTA_LOOKUP_DREG, data)
		a.String(nfnl.NFTA_LOOKUP_SET, name)
		a.Uint32(nfnl.NFTA_LOOKUP_SET_ID, id)
	})
}

// reference is the name and id by which a lookup refers to a set. An anonymous set is added to the program.
func (p *program) reference(s *Set) (name string, id uint32) {
	if s.Name != "" {
		return s.Name, 0
	}
	*p.ids++
	own := anonymous{s, choose(s.isMap(), "__map%d", "__set%d"), *p.ids}
	p.anonymous = append(p.anonymous, own)
	return own.name, own.id
}

func appendData(a *nfnl.Attributes, kind uint16, data []byte) {
	a.Nest(kind, func() { a.Bytes(nfnl.NFTA_DATA_VALUE, data) })
}
