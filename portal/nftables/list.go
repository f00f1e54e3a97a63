package nftables

import (
	"errors"
	"maps"
	"slices"
	"syscall"

	"github.com/portald/portald/platform/nfnl"
)

// listedChain is a chain as the kernel lists it.
type listedChain struct {
	hook    *hook
	accepts bool // its policy
	rules   []listedRule
}

// listedRule is a rule, which never changes. The handle identifies it as long as the table exists.
type listedRule struct {
	handle uint64
	digest digest
}

// listedSet is a named set as the kernel lists it.
type listedSet struct {
	description string // its flags and types, to be compared
	count       int    // of its elements; -1 = the kernel does not tell
}

// exists tells whether the kernel has the table, and whether it is dormant, with its hooks off.
func (t *table) exists() (exists, dormant bool, err error) {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_TABLE_NAME, t.name)
	err = t.conn.List(nfnl.Request(nfnl.NFT_MSG_GETTABLE, 0, t.number, a), func(list []byte) error {
		exists = true
		return nfnl.Decode(list, func(d *nfnl.Decoder) {
			if d.Type() == nfnl.NFTA_TABLE_FLAGS {
				dormant = d.Uint32() != 0
			}
		})
	})
	if errors.Is(err, syscall.ENOENT) {
		return false, false, nil
	}
	return exists, dormant, err
}

// listChains lists all chains of the table, with their rules.
func (t *table) listChains() (map[string]*listedChain, error) {
	out := map[string]*listedChain{}
	err := t.conn.List(nfnl.Request(nfnl.NFT_MSG_GETCHAIN, nfnl.Dump, t.number, nil), func(list []byte) error {
		table, name, c, err := parseChain(list)
		if table == t.name {
			out[name] = c
		}
		return err
	})
	if err == nil {
		err = t.listRules("", out)
	}
	return out, err
}

func parseChain(list []byte) (table, name string, c *listedChain, err error) {
	c = &listedChain{accepts: true}
	err = nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_CHAIN_TABLE:
			table = d.String()
		case nfnl.NFTA_CHAIN_NAME:
			name = d.String()
		case nfnl.NFTA_CHAIN_POLICY:
			c.accepts = d.Uint32() == nfnl.NF_ACCEPT
		case nfnl.NFTA_CHAIN_TYPE:
			c.base().kind = d.String()
		case nfnl.NFTA_CHAIN_HOOK:
			d.Do(c.base().parse)
		}
	})
	return table, name, c, err
}

// base is the hook of a chain that is listed with attributes of one: a base chain.
func (c *listedChain) base() *hook {
	if c.hook == nil {
		c.hook = &hook{}
	}
	return c.hook
}

func (h *hook) parse(list []byte) error {
	return nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_HOOK_HOOKNUM:
			for name, number := range hookNumbers() {
				if number == d.Uint32() {
					h.at = name
				}
			}
		case nfnl.NFTA_HOOK_PRIORITY:
			h.priority = int(int32(d.Uint32()))
		}
	})
}

func hookNumbers() map[string]uint32 {
	return map[string]uint32{
		"prerouting":  nfnl.NF_INET_PRE_ROUTING,
		"input":       nfnl.NF_INET_LOCAL_IN,
		"forward":     nfnl.NF_INET_FORWARD,
		"output":      nfnl.NF_INET_LOCAL_OUT,
		"postrouting": nfnl.NF_INET_POST_ROUTING,
	}
}

// listRules adds the rules of one chain, or of all if the name is empty, to listed chains.
func (t *table) listRules(chain string, to map[string]*listedChain) error {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_RULE_TABLE, t.name)
	if chain != "" {
		a.String(nfnl.NFTA_RULE_CHAIN, chain)
	}
	return t.conn.List(nfnl.Request(nfnl.NFT_MSG_GETRULE, nfnl.Dump, t.number, a), func(list []byte) error {
		var in string
		var r listedRule
		err := nfnl.Decode(list, func(d *nfnl.Decoder) {
			switch d.Type() {
			case nfnl.NFTA_RULE_CHAIN:
				in = d.String()
			case nfnl.NFTA_RULE_HANDLE:
				r.handle = d.Uint64()
			case nfnl.NFTA_RULE_USERDATA:
				r.digest = parseDigest(d.Bytes())
			}
		})
		if c := to[in]; c != nil {
			c.rules = append(c.rules, r)
		}
		return err
	})
}

// listSets lists the named sets of the table.
func (t *table) listSets() (map[string]listedSet, error) {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_SET_TABLE, t.name)
	out := map[string]listedSet{}
	err := t.conn.List(nfnl.Request(nfnl.NFT_MSG_GETSET, nfnl.Dump, t.number, a), func(list []byte) error {
		name, anonymous, s, err := parseSet(list)
		if !anonymous {
			out[name] = s
		}
		return err
	})
	return out, err
}

func parseSet(list []byte) (name string, anonymous bool, s listedSet, err error) {
	s.count = -1
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
			s.count = int(d.Uint32())
		case nfnl.NFTA_SET_KEY_TYPE, nfnl.NFTA_SET_KEY_LEN, nfnl.NFTA_SET_DATA_TYPE:
			about[d.Type()] = d.Bytes()
		}
	})
	if anonymous {
		return name, true, s, err
	}
	var text []byte
	for _, kind := range slices.Sorted(maps.Keys(about)) {
		text = append(append(text, byte(kind)), about[kind]...)
	}
	s.description = string(text)
	return name, false, s, err
}

// listElements calls each for every element of a set.
func (t *table) listElements(s *set, each func(setElement)) error {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_SET_ELEM_LIST_TABLE, t.name)
	a.String(nfnl.NFTA_SET_ELEM_LIST_SET, s.name)
	return t.eachElement(nfnl.Request(nfnl.NFT_MSG_GETSETELEM, nfnl.Dump, t.number, a), s, each)
}

// eachElement calls each for the elements of a set that a request asks for.
func (t *table) eachElement(request nfnl.Message, s *set, each func(setElement)) error {
	one := func(list []byte) error {
		e, err := s.parseElement(list)
		each(e)
		return err
	}
	all := func(list []byte) error { return nfnl.Decode(list, func(d *nfnl.Decoder) { d.Do(one) }) }
	return t.conn.List(request, func(list []byte) error {
		return nfnl.Decode(list, func(d *nfnl.Decoder) {
			if d.Type() == nfnl.NFTA_SET_ELEM_LIST_ELEMENTS {
				d.Do(all)
			}
		})
	})
}
