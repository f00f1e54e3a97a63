package nft

import (
	"fmt"
	"net/netip"
	"strings"
)

// Set is a set or, with data or verdicts, a map.
type Set struct {
	Name      string // empty = anonymous: it belongs to a rule, with constant elements
	Key       Key
	Data      Key  // of a map: of each element
	Verdicts  bool // of a verdict map
	Dynamic   bool // packets add elements, which time out
	Counts    bool // each element counts the packets that it matches
	intervals bool // elements are the bounds of intervals

	// Of anonymous sets:
	elements []SetElement
	prefixes []netip.Prefix // the intervals, as rules have them
}

func (s *Set) isMap() bool { return s.Verdicts || s.Data != nil }

// Text declares it, with elements as text.
func (s *Set) Text(elements []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%s %s {\n\t\t%s\n", choose(s.isMap(), "map", "set"), s.Name, s.types())
	if s.Dynamic {
		b.WriteString("\t\tflags dynamic, timeout\n")
	}
	if s.Counts {
		b.WriteString("\t\tcounter\n")
	}
	if len(elements) > 0 {
		fmt.Fprintf(&b, "\t\telements = {\n\t\t\t%s\n\t\t}\n", strings.Join(elements, ",\n\t\t\t"))
	}
	b.WriteString("\t}\n")
	return b.String()
}

func (s *Set) types() string {
	text, types := "type ", Key.types
	if s.Key.anonymous() {
		text, types = "typeof ", Key.text
	}
	text += types(s.Key)
	switch {
	case s.Verdicts:
		return text + " : verdict"
	case s.Data != nil:
		return text + " : " + types(s.Data)
	}
	return text
}

// reference is the set in a rule: its name, or all of an anonymous one.
func (s *Set) reference() string {
	if s.Name != "" {
		return "@" + s.Name
	}
	var words []string
	for _, p := range s.prefixes {
		words = append(words, prefixText(p))
	}
	if !s.intervals {
		for _, e := range s.elements {
			words = append(words, s.ElementText(e.Element, e.Value))
		}
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

// ElementText is an element with its value.
func (s *Set) ElementText(e Element, v Value) string {
	text := s.Key.Values(e)
	if v.Comment != "" {
		text += fmt.Sprintf(" comment \"%s\"", v.Comment)
	}
	switch {
	case s.Verdicts:
		text += " : " + v.Verdict.text(Family{})
	case s.Data != nil:
		text += " : " + s.Data.Values(v.parts())
	}
	return text
}

// Value is the data of a map's element.
type Value struct {
	Verdict  Verdict        // of a verdict map
	Endpoint netip.AddrPort // of another map: an address and a port, or a port alone
	Comment  string         // whose portal it is; empty = none
}

// parts are the endpoint's address and port, of which the map's data has one or both.
func (v Value) parts() Element {
	return Element{Destination: v.Endpoint.Addr(), Port: v.Endpoint.Port()}
}

// Entry is an element in its set.
type Entry struct {
	Set *Set
	Element
}

// SetElement is an entry with its value: all of an element.
type SetElement struct {
	Entry
	Value
	Packets uint64 // that it has matched, as the kernel listed it; 0 in sets that do not count
}

// literal is an anonymous set of elements.
func literal(k Key, elements []Element) *Set {
	s := &Set{Key: k}
	for _, e := range elements {
		s.elements = append(s.elements, SetElement{Entry: Entry{Element: e}})
	}
	return s
}

// LiteralMap is an anonymous map from a number to endpoints.
func (f Family) LiteralMap(number Expression, endpoints []netip.AddrPort) *Set {
	s := &Set{Key: Key{number}, Data: Key{f.DAddr(), DPort()}}
	for i, e := range endpoints {
		at := Entry{Element: Element{Slot: uint32(i)}}
		s.elements = append(s.elements, SetElement{Entry: at, Value: Value{Endpoint: e}})
	}
	return s
}

// LiteralPrefixes is an anonymous set of source addresses, by prefixes that are masked, in order, and do not overlap.
// Its elements are where each begins, and the first address after it unless the next begins there or there is none.
func (f Family) LiteralPrefixes(prefixes []netip.Prefix) *Set {
	var bounds []Element
	for i, p := range prefixes {
		if i == 0 || following(prefixes[i-1]) != p.Addr() {
			bounds = append(bounds, Element{Source: p.Addr()})
		}
		if end := following(p); end.IsValid() && (i == len(prefixes)-1 || prefixes[i+1].Addr() != end) {
			bounds = append(bounds, Element{Source: end, end: true})
		}
	}
	s := literal(Key{f.SAddr()}, bounds)
	s.intervals, s.prefixes = true, prefixes
	return s
}

// following is the first address after a prefix, which is masked; the zero Addr if there is none.
func following(p netip.Prefix) netip.Addr {
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(last)
	return addr.Next()
}

func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
