package netfilter

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// match is the condition of a match statement.
func (t *Table) match(value json.RawMessage) condition {
	var m struct {
		Op          string
		Left, Right json.RawMessage
	}
	if json.Unmarshal(value, &m) != nil {
		return unknown
	}
	left := parseSubjects(m.Left)
	switch m.Op {
	case "==", "in", "":
		return t.compare(left, m.Right, false)
	case "!=":
		return t.compare(left, m.Right, true)
	}
	return unknown
}

// compare is the condition that subjects, one or a concatenation, have one of the values.
func (t *Table) compare(left []subject, right json.RawMessage, inverted bool) condition {
	return func(p Packet) Answer {
		values := make([]string, len(left))
		known := Yes
		for i, s := range left {
			var is Answer
			values[i], is = s(p)
			known = min(known, is)
		}
		if known != Yes {
			return known
		}
		a := t.has(right, values, true)
		if inverted {
			return a.not()
		}
		return a
	}
}

// elementsOf returns the elements of a set or map, in a rule or named.
func (t *Table) elementsOf(raw json.RawMessage) elements {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return t.sets[strings.TrimPrefix(name, "@")]
	}
	var literal struct{ Set elements }
	_ = json.Unmarshal(raw, &literal) // what is no set has no elements
	return literal.Set
}

// has tells whether the right side of a comparison has values; named: it may be a named set.
func (t *Table) has(right json.RawMessage, values []string, named bool) Answer {
	var word string
	var number json.Number
	var list []json.RawMessage
	var object struct {
		Set, Concat, Range []json.RawMessage
		Prefix             *struct {
			Addr string
			Len  int
		}
		Elem *struct{ Val json.RawMessage }
	}
	switch {
	case json.Unmarshal(right, &word) == nil && named && strings.HasPrefix(word, "@"):
		return t.hasAny(t.sets[word[1:]], values)
	case json.Unmarshal(right, &word) == nil:
		return answer(len(values) == 1 && equals(word, "*")(values[0]) == Yes)
	case json.Unmarshal(right, &number) == nil:
		return answer(len(values) == 1 && values[0] == number.String())
	case json.Unmarshal(right, &list) == nil: // bits, any of which is enough
		return t.hasAny(list, values)
	case json.Unmarshal(right, &object) != nil:
		return Maybe
	}
	switch {
	case object.Set != nil:
		return t.hasAny(object.Set, values)
	case object.Elem != nil:
		return t.has(object.Elem.Val, values, false)
	case object.Concat != nil && len(object.Concat) == len(values):
		all := Yes
		for i, part := range object.Concat {
			all = min(all, t.has(part, values[i:i+1], false))
		}
		return all
	case len(values) != 1:
		return Maybe
	case object.Prefix != nil:
		return inPrefix(object.Prefix.Addr, object.Prefix.Len, values[0])
	case len(object.Range) == 2:
		return between(plain(object.Range[0]), plain(object.Range[1]))(values[0])
	}
	return Maybe
}

func (t *Table) hasAny(all []json.RawMessage, values []string) Answer {
	best := No
	for _, one := range all {
		best = max(best, t.has(one, values, false))
	}
	return best
}

func inPrefix(addr string, bits int, value string) Answer {
	base, err := netip.ParseAddr(addr)
	if err != nil {
		return Maybe
	}
	return within(netip.PrefixFrom(base, bits))(value)
}

// plain is a word or number without quotes.
func plain(raw json.RawMessage) string {
	if text, err := strconv.Unquote(string(raw)); err == nil {
		return text
	}
	return string(raw)
}

// parseSubjects reads the left side of a comparison.
func parseSubjects(raw json.RawMessage) []subject {
	var x struct {
		Concat  []json.RawMessage
		Payload *struct{ Protocol, Field string }
		Meta    *struct{ Key string }
		CT      *struct{ Key string }
		Fib     *struct {
			Result string
			Flags  []string
		}
		And []json.RawMessage `json:"&"`
	}
	if json.Unmarshal(raw, &x) != nil {
		return []subject{undetermined}
	}
	switch {
	case x.Concat != nil:
		var all []subject
		for _, part := range x.Concat {
			all = append(all, parseSubjects(part)...)
		}
		return all
	case x.Payload != nil:
		return []subject{payload(x.Payload.Protocol, x.Payload.Field)}
	case x.Meta != nil:
		return []subject{meta(x.Meta.Key)}
	case x.CT != nil:
		return []subject{ct(x.CT.Key)}
	case x.Fib != nil && x.Fib.Result == "type" && len(x.Fib.Flags) == 1 && x.Fib.Flags[0] == "daddr":
		return []subject{destinationType}
	case len(x.And) == 2 && strings.Contains(string(x.And[0]), `"flags"`) && hasWord(x.And[1], "syn"):
		return parseSubjects(x.And[0])
	}
	return []subject{undetermined}
}

// hasWord tells whether a list of words has one; nft prints a list of one as a word.
func hasWord(raw json.RawMessage, word string) bool {
	return strings.Contains(string(raw), strconv.Quote(word))
}

func undetermined(Packet) (string, Answer) { return "", Maybe }

// payload is a field of a header. Only packets with that header have it.
func payload(header, field string) subject {
	fields := map[string]subject{
		"ip daddr": destination, "ip6 daddr": destination, "ip saddr": source, "ip6 saddr": source,
		"ip protocol": protocol, "ip6 nexthdr": protocol, "tcp flags": tcpFlags,
	}
	s, ok := fields[header+" "+field]
	if !ok {
		s = undetermined
	}
	switch header {
	case "ip":
		return ofFamily(inet.IPv4, s)
	case "ip6":
		return ofFamily(inet.IPv6, s)
	case "tcp", "udp", "sctp", "th":
		return ofProtocol(header, choose(field == "dport", destinationPort, s))
	}
	return s
}

func meta(key string) subject {
	switch key {
	case "l4proto":
		return protocol
	case "nfproto":
		return familyWord("ipv4", "ipv6")
	case "protocol":
		return familyWord("ip", "ip6")
	case "iifname", "iif":
		return incoming
	}
	return undetermined
}

func ct(key string) subject {
	switch key {
	case "state":
		return state
	case "status":
		return status
	}
	return undetermined
}
