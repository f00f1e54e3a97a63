package nftables

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/nfnl"
)

// lookup matches packets whose key is an element of a set, or others.
type lookup struct {
	key key
	not bool
	in  *set
}

// elementOf matches packets whose key, as the set declares it, is an element.
func elementOf(s *set) lookup { return lookup{key: s.key, in: s} }

// fromOutside matches sources in none of these prefixes, which are masked, in order, and do not overlap. Several
// are one lookup of a set: a rule has room for some forty matches only.
func (f family) fromOutside(prefixes []netip.Prefix) statement {
	if len(prefixes) == 1 {
		return f.from(prefixes[0], true)
	}
	return lookup{key: key{f.saddr()}, not: true, in: f.literalPrefixes(prefixes)}
}

func (l lookup) text(family) string {
	return l.key.text() + string(ifNot(l.not)) + " " + l.in.reference()
}

func (l lookup) encode(p *program) {
	p.loadKey(l.key, nfnl.NFT_REG_1)
	name, id := p.reference(l.in)
	p.add("lookup", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_LOOKUP_SREG, nfnl.NFT_REG_1)
		if l.not {
			a.Uint32(nfnl.NFTA_LOOKUP_FLAGS, nfnl.NFT_LOOKUP_F_INV)
		}
		a.String(nfnl.NFTA_LOOKUP_SET, name)
		a.Uint32(nfnl.NFTA_LOOKUP_SET_ID, id)
	})
}

// vmap gives the verdict of a packet's key in a verdict map. It does not match if there is none.
type vmap struct{ by *set }

func (v vmap) text(family) string { return v.by.key.text() + " vmap " + v.by.reference() }

func (v vmap) encode(p *program) {
	p.loadKey(v.by.key, nfnl.NFT_REG_1)
	p.mapData(v.by, nfnl.NFT_REG_1, nfnl.NFT_REG_VERDICT)
}

// mapping is the data of a packet's key in a map. Its statement does not match if there is none.
type mapping struct{ by *set }

func (m mapping) text() string { return m.by.key.text() + " map " + m.by.reference() }

// load loads the data into a register and those that follow.
func (m mapping) load(p *program, register uint32) {
	p.loadKey(m.by.key, register)
	p.mapData(m.by, register, register)
}

// setUpdate adds a packet's key to a dynamic set, or restarts the timeout of its element.
type setUpdate struct {
	in      *set
	key     key
	timeout time.Duration
}

func (s setUpdate) text(family) string {
	return fmt.Sprintf("update @%s { %s timeout %s }", s.in.name, s.key.text(), timeText(s.timeout))
}

// timeText is a duration as nft reads it: with milliseconds below seconds.
func timeText(d time.Duration) string {
	return fmt.Sprintf("%ds%dms", d/time.Second, d%time.Second/time.Millisecond)
}

func (s setUpdate) encode(p *program) {
	p.loadKey(s.key, nfnl.NFT_REG_1)
	p.add("dynset", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_DYNSET_SREG_KEY, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_DYNSET_OP, nfnl.NFT_DYNSET_OP_UPDATE)
		a.Uint64(nfnl.NFTA_DYNSET_TIMEOUT, uint64(s.timeout.Milliseconds()))
		a.String(nfnl.NFTA_DYNSET_SET_NAME, s.in.name)
		a.Uint32(nfnl.NFTA_DYNSET_SET_ID, 0)
		a.Uint32(nfnl.NFTA_DYNSET_FLAGS, 0)
	})
}
