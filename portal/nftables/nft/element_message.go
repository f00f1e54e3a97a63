package nft

import (
	"net/netip"
	"strings"

	"github.com/portald/portald/platform/nfnl"
)

// maxElements keeps the list of a message below the 64 KiB that an attribute has, in bytes.
const maxElements = 32 << 10

// AddElements are the messages that add elements to a named set.
func (t *Table) AddElements(s *Set, all []SetElement) []nfnl.Message {
	return t.elements(nfnl.NFT_MSG_NEWSETELEM, s, s.Name, 0, all)
}

// DeleteElements are the messages that delete some from it.
func (t *Table) DeleteElements(s *Set, all []SetElement) []nfnl.Message {
	return t.elements(nfnl.NFT_MSG_DELSETELEM, s, s.Name, 0, all)
}

// fillAnonymous are the messages that give a set of a rule its elements.
func (t *Table) fillAnonymous(s anonymous) []nfnl.Message {
	return t.elements(nfnl.NFT_MSG_NEWSETELEM, s.Set, s.name, s.id, s.elements)
}

// GetElement is the request for one element of a named set, by its key.
func (t *Table) GetElement(e SetElement) nfnl.Message {
	return t.elements(nfnl.NFT_MSG_GETSETELEM, e.Set, e.Set.Name, 0, []SetElement{e})[0]
}

func (t *Table) elements(kind uint16, s *Set, name string, id uint32, all []SetElement) []nfnl.Message {
	add := kind == nfnl.NFT_MSG_NEWSETELEM
	var out []nfnl.Message
	for len(all) > 0 {
		var list nfnl.Attributes
		for len(all) > 0 && len(list) < maxElements {
			list.Nest(nfnl.NFTA_LIST_ELEM, func() { s.AppendElement(&list, all[0], add) })
			all = all[1:]
		}
		var a nfnl.Attributes
		a.String(nfnl.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		a.String(nfnl.NFTA_SET_ELEM_LIST_SET, name)
		if id != 0 {
			a.Uint32(nfnl.NFTA_SET_ELEM_LIST_SET_ID, id)
		}
		a.List(nfnl.NFTA_SET_ELEM_LIST_ELEMENTS, list)
		out = append(out, nfnl.Request(kind, choose(add, nfnl.Create, 0), t.Family.Number, a))
	}
	return out
}

// AppendElement appends an element by its key and, to add it, with all else.
func (s *Set) AppendElement(a *nfnl.Attributes, e SetElement, add bool) {
	var buffer [64]byte
	appendData(a, nfnl.NFTA_SET_ELEM_KEY, s.Key.append(buffer[:0], e.Element))
	if !add {
		return
	}
	if e.end {
		a.Uint32(nfnl.NFTA_SET_ELEM_FLAGS, nfnl.NFT_SET_ELEM_INTERVAL_END)
	}
	switch {
	case s.Verdicts:
		a.Nest(nfnl.NFTA_SET_ELEM_DATA, func() { e.Verdict.append(a) })
	case s.Data != nil:
		appendData(a, nfnl.NFTA_SET_ELEM_DATA, s.Data.append(buffer[:0], e.Value.parts()))
	}
	if e.Comment != "" {
		var u nfnl.Userdata
		u.String(nfnl.NFTNL_UDATA_SET_ELEM_COMMENT, e.Comment)
		a.Bytes(nfnl.NFTA_SET_ELEM_USERDATA, u)
	}
}

// ParseElement reads an element as the kernel lists it.
func (s *Set) ParseElement(list []byte) (SetElement, error) {
	out := SetElement{Entry: Entry{Set: s}}
	err := nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_SET_ELEM_KEY:
			d.Do(func(list []byte) error {
				return nfnl.Decode(list, func(d *nfnl.Decoder) { out.Element = s.Key.Parse(d.Bytes()) })
			})
		case nfnl.NFTA_SET_ELEM_DATA:
			d.Do(func(list []byte) error { return s.parseValue(list, &out.Value) })
		case nfnl.NFTA_SET_ELEM_USERDATA:
			comment := nfnl.Userdata(d.Bytes()).Find(nfnl.NFTNL_UDATA_SET_ELEM_COMMENT)
			out.Comment = strings.TrimSuffix(string(comment), "\x00")
		case nfnl.NFTA_SET_ELEM_EXPR:
			if s.Counts {
				d.Do(func(list []byte) (err error) {
					out.Packets, err = nfnl.CounterPackets(list)
					return err
				})
			}
		}
	})
	return out, err
}

func (s *Set) parseValue(list []byte, v *Value) error {
	return nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch {
		case s.Verdicts:
			d.Do(func(list []byte) (err error) {
				v.Verdict, err = parseVerdict(list)
				return err
			})
		case s.Data != nil:
			e := s.Data.Parse(d.Bytes())
			v.Endpoint = netip.AddrPortFrom(e.Destination, e.Port)
		}
	})
}
