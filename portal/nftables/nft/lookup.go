package nft

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/nfnl"
)

// lookup matches packets whose key is an element of a set, or others.
type lookup struct {
	key Key
	not bool
	in  *Set
}

// ElementOf matches packets whose key, as the set declares it, is an element.
func ElementOf(s *Set) Statement { return lookup{key: s.Key, in: s} }

// FromOutside matches sources in none of these prefixes, which are masked, in order, and do not overlap. Several
// are one lookup of a set: a rule has room for some forty matches only.
func (f Family) FromOutside(prefixes []netip.Prefix) Statement {
	if len(prefixes) == 1 {
		return f.From(prefixes[0], true)
	}
	return lookup{key: Key{f.SAddr()}, not: true, in: f.LiteralPrefixes(prefixes)}
}

func (l lookup) text(Family) string {
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
type vmap struct{ by *Set }

func (v vmap) text(Family) string { return v.by.Key.text() + " vmap " + v.by.reference() }

func (v vmap) encode(p *program) {
	p.loadKey(v.by.Key, nfnl.NFT_REG_1)
	p.mapData(v.by, nfnl.NFT_REG_1, nfnl.NFT_REG_VERDICT)
}

// mapping is the data of a packet's key in a map. Its statement does not match if there is none.
type mapping struct{ by *Set }

func (m mapping) text() string { return m.by.Key.text() + " map " + m.by.reference() }

// load loads the data into a register and those that follow.
func (m mapping) load(p *program, register uint32) {
	p.loadKey(m.by.Key, register)
	p.mapData(m.by, register, register)
}

// setUpdate adds a packet's key to a dynamic set, or restarts the timeout of its element.
type setUpdate struct {
	in      *Set
	key     Key
	timeout time.Duration
}

func (s setUpdate) text(Family) string {
	return fmt.Sprintf("update @%s { %s timeout %s }", s.in.Name, s.key.text(), timeText(s.timeout))
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
		a.String(nfnl.NFTA_DYNSET_SET_NAME, s.in.Name)
		a.Uint32(nfnl.NFTA_DYNSET_SET_ID, 0)
		a.Uint32(nfnl.NFTA_DYNSET_FLAGS, 0)
	})
}

// NotElementOf matches packets whose key, as the set declares it, is no element.
func NotElementOf(s *Set) Statement { return lookup{key: s.Key, not: true, in: s} }

// HasElement matches packets for which a set has an element of a key, which is of the set's types.
func HasElement(s *Set, k Key) Statement { return lookup{key: k, in: s} }

// VMap ends the rule with the verdict of a packet's key in a verdict map. It does not match if there is none.
func VMap(by *Set) Statement { return vmap{by} }

// UpdateSet adds a packet's key to a dynamic set, or restarts the timeout of its element.
func UpdateSet(s *Set, k Key, timeout time.Duration) Statement { return setUpdate{s, k, timeout} }
