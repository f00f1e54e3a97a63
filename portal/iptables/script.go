package iptables

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// script is the input of one iptables-restore, which is one transaction.
type script struct {
	table   string
	chains  ruleset          // chains to create, or to empty and fill
	unlink  []string         // rules to delete from chains of others, as printed
	link    []string         // rules to put into chains of others, "-I CHAIN 1 …" or "-A CHAIN …", in order
	discard map[string]depth // chains to remove
	leaves  map[shard]string // the leaves among both, with their names
}

func newScript(table string) *script {
	return &script{table: table, chains: ruleset{}, discard: map[string]depth{}, leaves: map[shard]string{}}
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

// halves divides a script into two that do the same one after the other, if it can be divided. A jump to a chain is
// written after the chain, and removed before it; and a chain of one name always holds the same part of the portals,
// so that no flow is interrupted between the two. Chains at the top stay together: extra chains may jump to each
// other.
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

// deepestFirst are the chains to write, the deepest first, and of one depth the last name first.
func (s *script) deepestFirst() []string {
	return slices.SortedFunc(maps.Keys(s.chains), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.chains[b].depth, s.chains[a].depth), cmp.Compare(b, a))
	})
}

// shallowestFirst are the chains to remove, each before those that it jumps to.
func (s *script) shallowestFirst() []string {
	return slices.SortedFunc(maps.Keys(s.discard), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.discard[a], s.discard[b]), cmp.Compare(a, b))
	})
}

// text orders the parts so that a chain is declared before a rule jumps to it, and removed after all jumps to it.
//
// The nft variant keeps the names of chains that it has met in an ordered list, and walks the list for each line. So
// the chains of owners, by far the most, are written one after the other, the last name first, which keeps the walks
// short: with all of them declared first, ten thousand Services took twice as long, and more Services far longer.
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
	for _, name := range discard { // a declaration empties a chain, so that none of these jumps to another
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

// The nft variant also walks its list for the chains that rules jump to, and where each endpoint has a chain no order
// keeps that short. Such a script is run in parts of at most maxWidth chains.
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
