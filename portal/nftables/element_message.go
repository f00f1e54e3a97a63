package nftables

import (
	"net/netip"
	"strings"

	"github.com/portald/portald/platform/nfnl"
)

// maxElements keeps the list of a message below the 64 KiB that an attribute has, in bytes.
const maxElements = 32 << 10

// addElements are the messages that add elements to a named set.
func (t *table) addElements(s *set, all []setElement) []nfnl.Message {
	return t.elements(nfnl.NFT_MSG_NEWSETELEM, s, s.name, 0, all)
}

// deleteElements are the messages that delete some from it.
func (t *table) deleteElements(s *set, all []setElement) []nfnl.Message {
	return t.elements(nfnl.NFT_MSG_DELSETELEM, s, s.name, 0, all)
}

// fillAnonymous are the messages that give a set of a rule its elements.
func (t *table) fillAnonymous(s anonymous) []nfnl.Message {
	return t.elements(nfnl.NFT_MSG_NEWSETELEM, s.set, s.name, s.id, s.elements)
}

func (t *table) elements(kind uint16, s *set, name string, id uint32, all []setElement) []nfnl.Message {
	add := kind == nfnl.NFT_MSG_NEWSETELEM
	var out []nfnl.Message
	for len(all) > 0 {
		var list nfnl.Attributes
		for len(all) > 0 && len(list) < maxElements {
			list.Nest(nfnl.NFTA_LIST_ELEM, func() { s.appendElement(&list, all[0], add) })
			all = all[1:]
		}
		var a nfnl.Attributes
		a.String(nfnl.NFTA_SET_ELEM_LIST_TABLE, t.name)
		a.String(nfnl.NFTA_SET_ELEM_LIST_SET, name)
		if id != 0 {
			a.Uint32(nfnl.NFTA_SET_ELEM_LIST_SET_ID, id)
		}
		a.List(nfnl.NFTA_SET_ELEM_LIST_ELEMENTS, list)
		out = append(out, nfnl.Request(kind, choose(add, nfnl.Create, 0), t.number, a))
	}
	return out
}

// appendElement appends an element by its key and, to add it, with all else.
func (s *set) appendElement(a *nfnl.Attributes, e setElement, add bool) {
	var buffer [64]byte
	appendData(a, nfnl.NFTA_SET_ELEM_KEY, s.key.append(buffer[:0], e.element))
	if !add {
		return
	}
	if e.end {
		a.Uint32(nfnl.NFTA_SET_ELEM_FLAGS, nfnl.NFT_SET_ELEM_INTERVAL_END)
	}
	switch {
	case s.verdicts:
		a.Nest(nfnl.NFTA_SET_ELEM_DATA, func() { e.verdict.append(a) })
	case s.data != nil:
		appendData(a, nfnl.NFTA_SET_ELEM_DATA, s.data.append(buffer[:0], e.value.parts()))
	}
	if e.comment != "" {
		var u nfnl.Userdata
		u.String(nfnl.NFTNL_UDATA_SET_ELEM_COMMENT, e.comment)
		a.Bytes(nfnl.NFTA_SET_ELEM_USERDATA, u)
	}
}

// parseElement reads an element as the kernel lists it.
func (s *set) parseElement(list []byte) (setElement, error) {
	out := setElement{entry: entry{set: s}}
	err := nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch d.Type() {
		case nfnl.NFTA_SET_ELEM_KEY:
			d.Do(func(list []byte) error {
				return nfnl.Decode(list, func(d *nfnl.Decoder) { out.element = s.key.parse(d.Bytes()) })
			})
		case nfnl.NFTA_SET_ELEM_DATA:
			d.Do(func(list []byte) error { return s.parseValue(list, &out.value) })
		case nfnl.NFTA_SET_ELEM_USERDATA:
			comment := nfnl.Userdata(d.Bytes()).Find(nfnl.NFTNL_UDATA_SET_ELEM_COMMENT)
			out.comment = strings.TrimSuffix(string(comment), "\x00")
		}
	})
	return out, err
}

func (s *set) parseValue(list []byte, v *value) error {
	return nfnl.Decode(list, func(d *nfnl.Decoder) {
		switch {
		case s.verdicts:
			d.Do(func(list []byte) (err error) {
				v.verdict, err = parseVerdict(list)
				return err
			})
		case s.data != nil:
			e := s.data.parse(d.Bytes())
			v.endpoint = netip.AddrPortFrom(e.destination, e.port)
		}
	})
}
