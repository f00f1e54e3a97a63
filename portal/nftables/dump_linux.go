package nftables

import (
	"errors"
	"maps"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// accept is the verdict by which packets pass (NF_ACCEPT).
const accept = 1

// heldChain is a chain that a host holds. Rules do not change: one with another handle is another rule.
type heldChain struct {
	handle  uint64
	hook    *hook
	accepts bool // what no rule ends
	rules   []uint64
}

// there tells whether the host has the table, and whether it is asleep.
func (t *table) there() (there, dormant bool, err error) {
	var a attributes
	a.string(unix.NFTA_TABLE_NAME, t.name)
	err = t.list(unix.NFT_MSG_GETTABLE, 0, a, func(list []byte) error {
		there = true
		return decode(list, func(d *netlink.AttributeDecoder) {
			if d.Type() == unix.NFTA_TABLE_FLAGS {
				dormant = d.Uint32() != 0
			}
		})
	})
	if errors.Is(err, syscall.ENOENT) {
		return false, false, nil
	}
	return there, dormant, err
}

// heldChains are all of the table, with their rules.
func (t *table) heldChains() (map[string]*heldChain, error) {
	out := map[string]*heldChain{}
	err := t.list(unix.NFT_MSG_GETCHAIN, netlink.Dump, nil, func(list []byte) error {
		c := &heldChain{accepts: true}
		var in, name string
		err := decode(list, func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_CHAIN_TABLE:
				in = d.String()
			case unix.NFTA_CHAIN_NAME:
				name = d.String()
			case unix.NFTA_CHAIN_HANDLE:
				c.handle = d.Uint64()
			case unix.NFTA_CHAIN_POLICY:
				c.accepts = d.Uint32() == accept
			case unix.NFTA_CHAIN_TYPE:
				c.kind().kind = d.String()
			case unix.NFTA_CHAIN_HOOK:
				d.Do(c.kind().parse)
			}
		})
		if in == t.name {
			out[name] = c
		}
		return err
	})
	if err == nil {
		err = t.heldRules("", out)
	}
	return out, err
}

func (c *heldChain) kind() *hook {
	if c.hook == nil {
		c.hook = &hook{}
	}
	return c.hook
}

func (h *hook) parse(list []byte) error {
	return decode(list, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_HOOK_HOOKNUM:
			for name, number := range hookNumbers() {
				if number == d.Uint32() {
					h.at = name
				}
			}
		case unix.NFTA_HOOK_PRIORITY:
			h.priority = int(int32(d.Uint32()))
		}
	})
}

func hookNumbers() map[string]uint32 {
	return map[string]uint32{"prerouting": unix.NF_INET_PRE_ROUTING, "input": unix.NF_INET_LOCAL_IN, "forward": unix.NF_INET_FORWARD,
		"output": unix.NF_INET_LOCAL_OUT, "postrouting": unix.NF_INET_POST_ROUTING}
}

// heldRules adds the rules of one chain, or of all.
func (t *table) heldRules(chain string, to map[string]*heldChain) error {
	var a attributes
	a.string(unix.NFTA_RULE_TABLE, t.name)
	if chain != "" {
		a.string(unix.NFTA_RULE_CHAIN, chain)
	}
	return t.list(unix.NFT_MSG_GETRULE, netlink.Dump, a, func(list []byte) error {
		var in string
		var handle uint64
		err := decode(list, func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_RULE_CHAIN:
				in = d.String()
			case unix.NFTA_RULE_HANDLE:
				handle = d.Uint64()
			}
		})
		if c := to[in]; c != nil {
			c.rules = append(c.rules, handle)
		}
		return err
	})
}

// heldSet is a named set that a host holds.
type heldSet struct {
	about string // what describe says of it, to be compared
	count int    // of its elements; -1 = the kernel does not tell
}

// setCount is the kernel's number of the attribute (NFTA_SET_COUNT), which it has from version 6.16 on.
const setCount = 20

// heldSets are those of the table.
func (t *table) heldSets() (map[string]heldSet, error) {
	var a attributes
	a.string(unix.NFTA_SET_TABLE, t.name)
	out := map[string]heldSet{}
	err := t.list(unix.NFT_MSG_GETSET, netlink.Dump, a, func(list []byte) error {
		var name string
		var flags uint32
		count := -1
		about := map[uint16][]byte{}
		err := decode(list, func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_SET_NAME:
				name = d.String()
			case unix.NFTA_SET_FLAGS:
				flags = d.Uint32() // the kernel leaves 0 out
				about[d.Type()] = d.Bytes()
			case setCount:
				count = int(d.Uint32())
			case unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE:
				about[d.Type()] = d.Bytes()
			}
		})
		if flags&unix.NFT_SET_ANONYMOUS == 0 {
			out[name] = heldSet{description(about), count}
		}
		return err
	})
	return out, err
}

// description is attributes as text that can be compared.
func description(about map[uint16][]byte) string {
	var text []byte
	for _, kind := range slices.Sorted(maps.Keys(about)) {
		text = append(append(text, byte(kind)), about[kind]...)
	}
	return string(text)
}

// described is what heldSets would say of a set.
func (f family) described(s *set) string {
	var a attributes
	f.describe(&a, s, choose[uint32](s.dynamic, unix.NFT_SET_EVAL|unix.NFT_SET_TIMEOUT, 0))
	about := map[uint16][]byte{}
	decode(a, func(d *netlink.AttributeDecoder) {
		if flags := d.Type() == unix.NFTA_SET_FLAGS; d.Type() != unix.NFTA_SET_DATA_LEN && !(flags && d.Uint32() == 0) {
			about[d.Type()] = d.Bytes()
		}
	})
	return description(about)
}

// heldElements calls each with those of a set.
func (t *table) heldElements(s *set, each func(filled)) error {
	var a attributes
	a.string(unix.NFTA_SET_ELEM_LIST_TABLE, t.name)
	a.string(unix.NFTA_SET_ELEM_LIST_SET, s.name)
	return t.list(unix.NFT_MSG_GETSETELEM, netlink.Dump, a, func(list []byte) error {
		return decode(list, func(d *netlink.AttributeDecoder) {
			if d.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return
			}
			d.Do(func(all []byte) error {
				return decode(all, func(d *netlink.AttributeDecoder) {
					d.Do(func(one []byte) error {
						e, err := t.parseElement(s, one)
						each(e)
						return err
					})
				})
			})
		})
	})
}

// list calls each with the attributes of each answer.
func (t *table) list(kind uint16, flags netlink.HeaderFlags, a attributes, each func([]byte) error) error {
	answers, err := t.conn.ask(message(kind, flags, t.family, a))
	for _, m := range answers {
		if err == nil && len(m.Data) >= 4 {
			err = each(m.Data[4:])
		}
	}
	return err
}
