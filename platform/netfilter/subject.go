package netfilter

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// subject is a property of packets that rules compare. No: a packet like this has none, and no comparison matches.
// Maybe: its value is not known.
type subject func(Packet) (value string, known Answer)

// is is the condition that a subject passes a test.
func (s subject) is(test func(value string) Answer) condition {
	return func(p Packet) Answer {
		value, known := s(p)
		if known != Yes {
			return known
		}
		return test(value)
	}
}

// isNot is that it does not. A packet without the subject matches neither.
func (s subject) isNot(test func(value string) Answer) condition {
	return s.is(func(value string) Answer { return test(value).not() })
}

func source(p Packet) (string, Answer) {
	return p.Source.String(), or(p.Source.IsValid(), Maybe)
}

func destination(p Packet) (string, Answer) {
	return p.Destination.Addr().String(), or(!p.Destination.Addr().IsUnspecified(), Maybe)
}

func destinationPort(p Packet) (string, Answer) {
	return strconv.Itoa(int(p.Destination.Port())), Yes
}

func protocol(p Packet) (string, Answer) { return p.Protocol.String(), Yes }

// state returns the conntrack state of a flow's first packet.
func state(Packet) (string, Answer) { return "new", Yes }

func status(p Packet) (string, Answer) {
	if p.Translated {
		return "dnat", Yes
	}
	return "", Yes
}

// tcpFlags returns the flags of a connection's first segment.
func tcpFlags(p Packet) (string, Answer) { return "syn", or(p.Protocol == inet.TCP, No) }

// incoming is the interface that it came in by; packets of this host's own programs came in by none.
func incoming(p Packet) (string, Answer) {
	return p.Interface, or(p.Interface != "" || p.Hook == Output, Maybe)
}

func destinationType(p Packet) (string, Answer) {
	switch p.local() {
	case Yes:
		return "local", Yes
	case No:
		return "unicast", Yes
	}
	return "", Maybe
}

func familyWord(four, six string) subject {
	return func(p Packet) (string, Answer) {
		if p.family() == inet.IPv6 {
			return six, Yes
		}
		return four, Yes
	}
}

// ofProtocol is a subject that only packets of a protocol have; "th" is any.
func ofProtocol(name string, s subject) subject {
	return func(p Packet) (string, Answer) {
		if name != "th" && name != p.Protocol.String() {
			return "", No
		}
		return s(p)
	}
}

// ofFamily is a subject that only packets of a family have.
func ofFamily(family inet.Family, s subject) subject {
	return func(p Packet) (string, Answer) {
		if p.family() != family {
			return "", No
		}
		return s(p)
	}
}

func or(known bool, otherwise Answer) Answer {
	if known {
		return Yes
	}
	return otherwise
}

// within tests addresses.
func within(prefix netip.Prefix) func(string) Answer {
	return func(value string) Answer {
		addr, err := netip.ParseAddr(value)
		return answer(err == nil && prefix.Contains(addr))
	}
}

// between tests ports and addresses by both bounds of a range.
func between(first, last string) func(string) Answer {
	return func(value string) Answer {
		if addr, err := netip.ParseAddr(value); err == nil {
			from, err1 := netip.ParseAddr(first)
			to, err2 := netip.ParseAddr(last)
			return answer(err1 == nil && err2 == nil && from.Compare(addr) <= 0 && addr.Compare(to) <= 0)
		}
		n, err := strconv.Atoi(value)
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err1 != nil || err2 != nil {
			return Maybe
		}
		return answer(from <= n && n <= to)
	}
}

// equals tests words without regard to case, and names of interfaces with a wildcard at the end.
func equals(want, wildcard string) func(string) Answer {
	return func(value string) Answer {
		if begin, ok := strings.CutSuffix(want, wildcard); ok && wildcard != "" {
			return answer(strings.HasPrefix(value, begin))
		}
		return answer(strings.EqualFold(value, want))
	}
}

// anyOf passes what one of the tests passes.
func anyOf(tests []func(string) Answer) func(string) Answer {
	return func(value string) Answer {
		best := No
		for _, test := range tests {
			best = max(best, test(value))
		}
		return best
	}
}
