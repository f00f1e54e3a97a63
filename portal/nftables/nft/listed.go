package nft

import (
	"maps"
	"slices"

	"github.com/portald/portald/platform/nfnl"
)

// ListedChain is a chain as the kernel lists it.
type ListedChain struct {
	Hook    *Hook
	Accepts bool // its policy
	Rules   []ListedRule
}

// ListedRule is a rule, which never changes. The handle identifies it as long as the table exists.
type ListedRule struct {
	Handle uint64
	Digest Digest
}

// ListedSet is a named set as the kernel lists it.
type ListedSet struct {
	Description string // its flags and types, to be compared
	Count       int    // of its elements; -1 = the kernel does not tell
}

func ParseChain(list []byte) (table, name string, c *ListedChain, err error) {
	c = &ListedChain{Accepts: true}
	err = nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_CHAIN_TABLE:
			table = d.String()
		case nfnl.NFTA_CHAIN_NAME:
			name = d.String()
		case nfnl.NFTA_CHAIN_POLICY:
			c.Accepts = d.Uint32() == nfnl.NF_ACCEPT
		case nfnl.NFTA_CHAIN_TYPE:
			c.base().Kind = d.String()
		case nfnl.NFTA_CHAIN_HOOK:
			d.Do(c.base().parse)
		}
	})
	return table, name, c, err
}

// base is the hook of a chain that is listed with attributes of one: a base chain.
func (c *ListedChain) base() *Hook {
	if c.Hook == nil {
		c.Hook = &Hook{}
	}
	return c.Hook
}

func (h *Hook) parse(list []byte) error {
	return nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_HOOK_HOOKNUM:
			for name, number := range hookNumbers() {
				if number == d.Uint32() {
					h.At = name
				}
			}
		case nfnl.NFTA_HOOK_PRIORITY:
			h.Priority = int(int32(d.Uint32()))
		}
	})
}

func ParseSet(list []byte) (name string, anonymous bool, s ListedSet, err error) {
	s.Count = -1
	about := map[uint16][]byte{}
	err = nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_SET_NAME:
			name = d.String()
		case nfnl.NFTA_SET_FLAGS:
			anonymous = d.Uint32()&nfnl.NFT_SET_ANONYMOUS != 0
			if d.Uint32() != 0 { // the kernel leaves 0 out
				about[d.Type()] = d.Bytes()
			}
		case nfnl.NFTA_SET_COUNT:
			s.Count = int(d.Uint32())
		case nfnl.NFTA_SET_KEY_TYPE, nfnl.NFTA_SET_KEY_LEN, nfnl.NFTA_SET_DATA_TYPE:
			about[d.Type()] = d.Bytes()
		case nfnl.NFTA_SET_EXPR:
			d.Do(func(list []byte) error {
				return nfnl.Decode(list, func(of *nfnl.Decoder) {
					if of.Type() == nfnl.NFTA_EXPR_NAME {
						about[nfnl.NFTA_SET_EXPR] = []byte(of.String())
					}
				})
			})
		}
	})
	if anonymous {
		return name, true, s, err
	}
	var text []byte
	for _, kind := range slices.Sorted(maps.Keys(about)) {
		text = append(append(text, byte(kind)), about[kind]...)
	}
	s.Description = string(text)
	return name, false, s, err
}
