package iptables

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// script is what one iptables-restore is to do: it takes effect as a whole or not at all.
type script struct {
	table   string
	chains  map[string]string // chains to make, or to empty and fill
	unlink  []string          // rules to delete from chains of others, as printed
	link    []string          // rules to put into chains of others, "-I CHAIN 1 …" or "-A CHAIN …", in order
	discard []string          // chains to remove
}

func (s *script) empty() bool { return s.size() == 0 }

// size counts what there is to do.
func (s *script) size() int {
	lines := len(s.unlink) + len(s.link) + 2*len(s.discard)
	for _, rules := range s.chains {
		lines += 1 + count(rules)
	}
	return lines
}

// halves divides a script into two that do the same one after the other, if it can be divided. What leads to a chain
// comes after it, and goes before it; and a chain of one name holds the same part of the portals at any time, so that
// nothing is interrupted between the two.
func (s *script) halves() (first, second *script, ok bool) {
	first = &script{table: s.table, chains: map[string]string{}}
	second = &script{table: s.table, chains: map[string]string{}}
	switch names := s.deepestFirst(); {
	case len(names) > 1:
		for i, name := range names {
			half := first
			if i >= len(names)/2 {
				half = second
			}
			half.chains[name] = s.chains[name]
		}
		second.unlink, second.link, second.discard = s.unlink, s.link, s.discard
	case len(s.discard) > 0 && s.size() > 2*len(s.discard):
		first.chains, first.unlink, first.link, second.discard = s.chains, s.unlink, s.link, s.discard
	case len(s.discard) > 1:
		slices.SortFunc(s.discard, func(a, b string) int { return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b)) })
		half := len(s.discard) / 2
		first.discard, second.discard = s.discard[:half:half], s.discard[half:]
	default:
		return nil, nil, false
	}
	return first, second, true
}

func (s *script) deepestFirst() []string {
	return slices.SortedFunc(maps.Keys(s.chains), func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(b), depth(a)), cmp.Compare(a, b))
	})
}

// text orders the parts so that a chain is there before a rule leads to it, and none leads to it when it goes.
func (s *script) text() []byte {
	names, discard := slices.Sorted(maps.Keys(s.chains)), slices.Sorted(slices.Values(s.discard))
	var b strings.Builder
	b.WriteString("*" + s.table + "\n")
	for _, name := range names {
		b.WriteString(":" + name + " - [0:0]\n")
	}
	for _, name := range discard { // a declaration empties a chain, so that none of these leads to another
		b.WriteString(":" + name + " - [0:0]\n")
	}
	for _, rule := range s.unlink {
		b.WriteString("-D " + strings.TrimPrefix(rule, "-A ") + "\n")
	}
	for _, name := range names {
		b.WriteString(s.chains[name])
	}
	for _, rule := range s.link {
		b.WriteString(rule + "\n")
	}
	for _, name := range discard {
		b.WriteString("-X " + name + "\n")
	}
	b.WriteString("COMMIT\n")
	return []byte(b.String())
}
