package nftables

import (
	"fmt"
	"net/netip"
	"strings"
)

// set is a set or, with data or verdicts, a map.
type set struct {
	name      string // empty = anonymous: it belongs to a rule, with constant elements
	key       key
	data      key  // of a map: of each element
	verdicts  bool // of a verdict map
	dynamic   bool // packets add elements, which time out
	intervals bool // elements are the bounds of intervals

	// Of anonymous sets:
	elements []setElement
	prefixes []netip.Prefix // the intervals, as rules have them
}

func (s *set) isMap() bool { return s.verdicts || s.data != nil }

// text declares it, with elements as text.
func (s *set) text(elements []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%s %s {\n\t\t%s\n", choose(s.isMap(), "map", "set"), s.name, s.types())
	if s.dynamic {
		b.WriteString("\t\tflags dynamic, timeout\n")
	}
	if len(elements) > 0 {
		fmt.Fprintf(&b, "\t\telements = {\n\t\t\t%s\n\t\t}\n", strings.Join(elements, ",\n\t\t\t"))
	}
	b.WriteString("\t}\n")
	return b.String()
}

func (s *set) types() string {
	text, types := "type ", key.types
	if s.key.anonymous() {
		text, types = "typeof ", key.text
	}
	text += types(s.key)
	switch {
	case s.verdicts:
		return text + " : verdict"
	case s.data != nil:
		return text + " : " + types(s.data)
	}
	return text
}

// reference is the set in a rule: its name, or all of an anonymous one.
func (s *set) reference() string {
	if s.name != "" {
		return "@" + s.name
	}
	var words []string
	for _, p := range s.prefixes {
		words = append(words, prefixText(p))
	}
	if !s.intervals {
		for _, e := range s.elements {
			words = append(words, s.elementText(e.element, e.value))
		}
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

// elementText is an element with its value.
func (s *set) elementText(e element, v value) string {
	text := s.key.values(e)
	if v.comment != "" {
		text += fmt.Sprintf(" comment \"%s\"", v.comment)
	}
	switch {
	case s.verdicts:
		text += " : " + v.verdict.text(family{})
	case s.data != nil:
		text += " : " + s.data.values(v.parts())
	}
	return text
}

// value is what a map has for an element.
type value struct {
	verdict  verdict        // of a verdict map
	endpoint netip.AddrPort // of another map: an address and a port, or a port alone
	comment  string         // whose portal it is; empty = none
}

// parts are those of the endpoint, of which the map's data has one or both.
func (v value) parts() element {
	return element{destination: v.endpoint.Addr(), port: v.endpoint.Port()}
}

// entry is an element in its set.
type entry struct {
	set *set
	element
}

// setElement is an entry with its value: all of an element.
type setElement struct {
	entry
	value
}

// literal is an anonymous set of elements.
func literal(k key, elements []element) *set {
	s := &set{key: k}
	for _, e := range elements {
		s.elements = append(s.elements, setElement{entry: entry{element: e}})
	}
	return s
}

// literalMap is an anonymous map from a number to endpoints.
func (f family) literalMap(number expression, endpoints []netip.AddrPort) *set {
	s := &set{key: key{number}, data: key{f.daddr(), dport()}}
	for i, e := range endpoints {
		s.elements = append(s.elements, setElement{entry{element: element{slot: uint32(i)}}, value{endpoint: e}})
	}
	return s
}

// literalPrefixes is an anonymous set of source addresses, by prefixes that are masked, in order, and do not overlap.
// Its elements are where each begins, and the first address after it unless the next begins there or there is none.
func (f family) literalPrefixes(prefixes []netip.Prefix) *set {
	var bounds []element
	for i, p := range prefixes {
		if i == 0 || following(prefixes[i-1]) != p.Addr() {
			bounds = append(bounds, element{source: p.Addr()})
		}
		if end := following(p); end.IsValid() && (i == len(prefixes)-1 || prefixes[i+1].Addr() != end) {
			bounds = append(bounds, element{source: end, end: true})
		}
	}
	s := literal(key{f.saddr()}, bounds)
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
