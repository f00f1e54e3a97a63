package nftables

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/portald/portald/proxy/service"
)

// field is a part of the key of a set.
type field uint8

const (
	bySource field = iota
	byDestination
	byProtocol
	byPort
	bySlot // a random number below that of the set's slots
)

// key is what a set is asked by.
type key []field

// text is the expression that makes the key from a packet.
func (k key) text(f family, slots int) string {
	words := map[field]string{bySource: f.word + " saddr", byDestination: f.word + " daddr", byProtocol: "meta l4proto",
		byPort: "th dport", bySlot: fmt.Sprintf("numgen random mod %d", slots)}
	return k.join(func(part field) string { return words[part] })
}

// types are those of its parts.
func (k key) types(f family) string {
	words := map[field]string{bySource: f.addressType(), byDestination: f.addressType(), byProtocol: "inet_proto", byPort: "inet_service"}
	return k.join(func(part field) string { return words[part] })
}

func (k key) join(word func(field) string) string {
	var words []string
	for _, part := range k {
		words = append(words, word(part))
	}
	return strings.Join(words, " . ")
}

// data is what a set knows of its elements.
type data uint8

const (
	nothing data = iota
	verdicts
	ports
	endpoints // an address and a port
)

// set is a set or, with data, a map.
type set struct {
	name    string
	key     key
	data    data
	slots   int  // of a key that has such
	dynamic bool // packets enter elements, which time out
	ranges  bool // elements are where ranges begin and end
}

// text declares it.
func (s *set) text(f family, elements []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%s %s {\n\t\t%s\n", choose(s.data == nothing, "set", "map"), s.name, s.types(f))
	if s.dynamic {
		b.WriteString("\t\tflags dynamic, timeout\n")
	}
	if len(elements) > 0 {
		fmt.Fprintf(&b, "\t\telements = {\n\t\t\t%s\n\t\t}\n", strings.Join(elements, ",\n\t\t\t"))
	}
	b.WriteString("\t}\n")
	return b.String()
}

func (s *set) types(f family) string {
	switch s.data {
	case verdicts:
		return "type " + s.key.types(f) + " : verdict"
	case ports:
		return "type " + s.key.types(f) + " : inet_service"
	case endpoints: // the type of a slot has no name
		return "typeof " + s.key.text(f, s.slots) + " : " + key{byDestination, byPort}.text(f, 0)
	}
	if s.slots > 0 {
		return "typeof " + s.key.text(f, s.slots)
	}
	return "type " + s.key.types(f)
}

// element is one of a set, by the parts that the set's key has.
type element struct {
	source, destination netip.Addr
	protocol            service.Protocol
	port                uint16
	slot                uint32
	end                 bool // of a range, which does not have it
}

func (e element) text(k key) string {
	return k.join(func(part field) string {
		switch part {
		case bySource:
			return e.source.String()
		case byDestination:
			return e.destination.String()
		case byProtocol:
			return e.protocol.String()
		case byPort:
			return fmt.Sprint(e.port)
		}
		return fmt.Sprint(e.slot)
	})
}

func (e element) compare(o element) int {
	for _, c := range []int{e.destination.Compare(o.destination), e.source.Compare(o.source),
		int(e.protocol) - int(o.protocol), int(e.port) - int(o.port), int(int64(e.slot) - int64(o.slot))} {
		if c != 0 {
			return c
		}
	}
	return 0
}

// value is what a set knows of an element.
type value struct {
	verdict  verdict        // if the set has verdicts
	endpoint netip.AddrPort // if it has endpoints, or ports, which are that of this
	comment  string         // whose portal it is; empty = none
}

// text is of the element with its value.
func (s *set) elementText(e element, v value) string {
	text := e.text(s.key)
	if v.comment != "" {
		text += fmt.Sprintf(" comment \"%s\"", v.comment)
	}
	switch s.data {
	case verdicts:
		text += " : " + v.verdict.text(family{})
	case ports:
		text += fmt.Sprintf(" : %d", v.endpoint.Port())
	case endpoints:
		text += fmt.Sprintf(" : %s . %d", v.endpoint.Addr(), v.endpoint.Port())
	}
	return text
}

// entry is an element in its set.
type entry struct {
	set *set
	element
}
