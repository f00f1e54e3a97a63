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
	chains  ruleset          // chains to make, or to empty and fill
	unlink  []string         // rules to delete from chains of others, as printed
	link    []string         // rules to put into chains of others, "-I CHAIN 1 …" or "-A CHAIN …", in order
	discard map[string]depth // chains to remove
}

func newScript(table string) *script {
	return &script{table: table, chains: ruleset{}, discard: map[string]depth{}}
}

func (s *script) empty() bool { return s.size() == 0 }

// size counts what there is to do.
func (s *script) size() int {
	lines := len(s.unlink) + len(s.link) + 2*len(s.discard)
	for _, c := range s.chains {
		lines += 1 + count(c.rules)
	}
	return lines
}

// halves divides a script into two that do the same one after the other, if it can be divided. What leads to a chain
// comes after it, and goes before it; and a chain of one name holds the same part of the portals at any time, so that
// nothing is interrupted between the two. Chains at the top stay together: those of other rooms may lead to each other.
func (s *script) halves() (first, second *script, ok bool) {
	first, second = newScript(s.table), newScript(s.table)
	names := s.deepestFirst()
	cut := len(names) / 2
	for cut > 0 && s.chains[names[cut-1]].depth == atTop {
		cut--
	}
	switch {
	case cut > 0:
		for i, name := range names {
			half := first
			if i >= cut {
				half = second
			}
			half.chains[name] = s.chains[name]
		}
		second.unlink, second.link, second.discard = s.unlink, s.link, s.discard
	case len(s.discard) > 0 && s.size() > 2*len(s.discard):
		first.chains, first.unlink, first.link, second.discard = s.chains, s.unlink, s.link, s.discard
	case len(s.discard) > 1:
		for i, name := range s.shallowestFirst() {
			half := first
			if i >= len(s.discard)/2 {
				half = second
			}
			half.discard[name] = s.discard[name]
		}
	default:
		return nil, nil, false
	}
	return first, second, true
}

// deepestFirst are the chains to write, those that lead nowhere first, and of one depth the last name first.
func (s *script) deepestFirst() []string {
	return slices.SortedFunc(maps.Keys(s.chains), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.chains[b].depth, s.chains[a].depth), cmp.Compare(b, a))
	})
}

// shallowestFirst are the chains to remove, before those that they lead to.
func (s *script) shallowestFirst() []string {
	return slices.SortedFunc(maps.Keys(s.discard), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.discard[a], s.discard[b]), cmp.Compare(a, b))
	})
}

// text orders the parts so that a chain is there before a rule leads to it, and none leads to it when it goes.
//
// The nft variant keeps the names of chains that it has come across in an ordered list, and walks it for each line. So
// the chains of owners, by far the most, are written one after the other, the last name first, which keeps the walks
// short: with all of them declared first, ten thousand Services took twice the time, and more of them far more.
func (s *script) text() []byte {
	names, discard := s.deepestFirst(), slices.Sorted(maps.Keys(s.discard))
	shallow := slices.IndexFunc(names, func(name string) bool { return s.chains[name].depth <= atLeaf })
	if shallow < 0 {
		shallow = len(names)
	}
	var b strings.Builder
	b.WriteString("*" + s.table + "\n")
	for _, name := range names[:shallow] {
		b.WriteString(":" + name + " - [0:0]\n" + s.chains[name].rules)
	}
	names = names[shallow:]
	slices.Sort(names)
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
		b.WriteString(s.chains[name].rules)
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

// The nft variant walks its list for chains that rules lead to as well, in no order that helps where each endpoint has a
// chain. Such a script goes in parts of some chains each.
const (
	maxEndpoints = 1_000
	maxWidth     = 500
)

func (s *script) crowded() bool {
	endpoints := 0
	for _, c := range s.chains {
		if c.depth == atEndpoint {
			endpoints++
		}
	}
	return endpoints > maxEndpoints || len(s.discard) > 10*maxEndpoints
}

// width is how many chains are written or removed.
func (s *script) width() int { return len(s.chains) + len(s.discard)/10 }
