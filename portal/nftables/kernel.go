package nftables

import (
	"errors"
	"slices"
	"syscall"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/nft"
)

// kernelTable is the table of one family in the kernel: it lists what is there, and applies steps.
type kernelTable struct {
	conn *nfnl.Conn
	wire *nft.Table // the messages about it
}

// exists tells whether the kernel has the table, and whether it is dormant, with its hooks off.
func (k *kernelTable) exists() (exists, dormant bool, err error) {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_TABLE_NAME, k.wire.Name)
	err = k.conn.List(nfnl.Request(nfnl.NFT_MSG_GETTABLE, 0, k.wire.Family.Number, a), func(list []byte) error {
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
func (k *kernelTable) listChains() (map[string]*nft.ListedChain, error) {
	out := map[string]*nft.ListedChain{}
	err := k.conn.List(nfnl.Request(nfnl.NFT_MSG_GETCHAIN, nfnl.Dump, k.wire.Family.Number, nil), func(list []byte) error {
		table, name, c, err := nft.ParseChain(list)
		if table == k.wire.Name {
			out[name] = c
		}
		return err
	})
	if err == nil {
		err = k.listRules("", out)
	}
	return out, err
}

// listRules adds the rules of one chain, or of all if the name is empty, to listed chains.
func (k *kernelTable) listRules(chain string, to map[string]*nft.ListedChain) error {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_RULE_TABLE, k.wire.Name)
	if chain != "" {
		a.String(nfnl.NFTA_RULE_CHAIN, chain)
	}
	return k.conn.List(nfnl.Request(nfnl.NFT_MSG_GETRULE, nfnl.Dump, k.wire.Family.Number, a), func(list []byte) error {
		var in string
		var r nft.ListedRule
		err := nfnl.Decode(list, func(d *nfnl.Decoder) {
			switch d.Type() {
			case nfnl.NFTA_RULE_CHAIN:
				in = d.String()
			case nfnl.NFTA_RULE_HANDLE:
				r.Handle = d.Uint64()
			case nfnl.NFTA_RULE_USERDATA:
				r.Digest = nft.ParseDigest(d.Bytes())
			}
		})
		if c := to[in]; c != nil {
			c.Rules = append(c.Rules, r)
		}
		return err
	})
}

// listSets lists the named sets of the table.
func (k *kernelTable) listSets() (map[string]nft.ListedSet, error) {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_SET_TABLE, k.wire.Name)
	out := map[string]nft.ListedSet{}
	err := k.conn.List(nfnl.Request(nfnl.NFT_MSG_GETSET, nfnl.Dump, k.wire.Family.Number, a), func(list []byte) error {
		name, anonymous, s, err := nft.ParseSet(list)
		if !anonymous {
			out[name] = s
		}
		return err
	})
	return out, err
}

// listElements calls each once for every element of a set. The kernel lists some twice when their hash table grows
// meanwhile.
func (k *kernelTable) listElements(s *nft.Set, each func(nft.SetElement)) error {
	seen := map[nft.Entry]bool{}
	once := func(e nft.SetElement) {
		if !seen[e.Entry] {
			seen[e.Entry] = true
			each(e)
		}
	}
	var a nfnl.Attributes
	a.String(nfnl.NFTA_SET_ELEM_LIST_TABLE, k.wire.Name)
	a.String(nfnl.NFTA_SET_ELEM_LIST_SET, s.Name)
	return k.eachElement(nfnl.Request(nfnl.NFT_MSG_GETSETELEM, nfnl.Dump, k.wire.Family.Number, a), s, once)
}

// eachElement calls each for the elements of a set that a request asks for.
func (k *kernelTable) eachElement(request nfnl.Message, s *nft.Set, each func(nft.SetElement)) error {
	one := func(list []byte) error {
		e, err := s.ParseElement(list)
		each(e)
		return err
	}
	all := func(list []byte) error { return nfnl.Decode(list, func(d *nfnl.Decoder) { d.Do(one) }) }
	return k.conn.List(request, func(list []byte) error {
		return nfnl.Decode(list, func(d *nfnl.Decoder) {
			if d.Type() == nfnl.NFTA_SET_ELEM_LIST_ELEMENTS {
				d.Do(all)
			}
		})
	})
}

// inForce returns an error unless the table exists with its hooks on.
func (k *kernelTable) inForce() error {
	exists, dormant, err := k.exists()
	switch {
	case err != nil:
		return err
	case !exists:
		return errors.New("the table is missing")
	case dormant:
		return errors.New("the table is dormant")
	}
	return nil
}

// getElement looks an element up by its key.
func (k *kernelTable) getElement(e nft.SetElement) (element nft.SetElement, there bool, err error) {
	err = k.eachElement(k.wire.GetElement(e), e.Set, func(listed nft.SetElement) { element, there = listed, true })
	if errors.Is(err, syscall.ENOENT) {
		return element, false, nil
	}
	return element, there, err
}

// installedChains lists the wanted chains that the kernel has, with their rules.
func (k *kernelTable) installedChains(wanted []nft.Chain) (map[string]*nft.ListedChain, error) {
	installed := map[string]*nft.ListedChain{}
	err := k.conn.List(nfnl.Request(nfnl.NFT_MSG_GETCHAIN, nfnl.Dump, k.wire.Family.Number, nil), func(list []byte) error {
		table, name, c, err := nft.ParseChain(list)
		isWanted := func(c nft.Chain) bool { return c.Name == name }
		if table == k.wire.Name && slices.ContainsFunc(wanted, isWanted) {
			installed[name] = c
		}
		return err
	})
	for name := range installed {
		if err == nil {
			err = k.listRules(name, installed)
		}
	}
	return installed, err
}
