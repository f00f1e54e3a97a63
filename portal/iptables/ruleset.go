package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	natTable    = "nat"
	filterTable = "filter"
	mangleTable = "mangle"
)

// ruleset is chains by name.
type ruleset map[string]chain

// add puts rules at the end of a chain.
func (s ruleset) add(name string, at depth, rules string) { s[name] = chain{at, s[name].rules + rules} }

func count(rules string) int { return strings.Count(rules, "\n") }

// jump is a rule of ours in a built-in chain.
type jump struct {
	chain string
	match string // with a blank at its end unless empty
	to    string
	last  bool // behind the rules of others instead of before them
}

func (j jump) rule() string { return fmt.Sprintf("-A %s %s-j %s", j.chain, j.match, j.to) }

const newFlow = "-m conntrack --ctstate NEW "

// foreign is a rule as printed, in a chain that is not ours.
type foreign struct{ chain, rule string }

// asForeign returns jumps as rules in chains of others.
func asForeign(jumps []jump) []foreign {
	var all []foreign
	for _, j := range jumps {
		all = append(all, foreign{j.chain, j.rule()})
	}
	return all
}

// relink returns the jumps to delete from chains of others, and those to add. Where all jumps of a chain are there
// once and in order, they are left alone at any position: others may have put their rules before.
func relink(wanted []jump, installed []foreign) (unlink, link []string) {
	want, have := map[string][]string{}, map[string][]string{}
	for _, j := range wanted {
		want[j.chain] = append(want[j.chain], j.rule())
	}
	for _, h := range installed {
		have[h.chain] = append(have[h.chain], h.rule)
	}
	for _, chain := range slices.Sorted(maps.Keys(have)) {
		if !slices.Equal(have[chain], want[chain]) {
			unlink = append(unlink, have[chain]...)
		}
	}
	unchanged := func(j jump) bool { return slices.Equal(have[j.chain], want[j.chain]) }
	for _, j := range slices.Backward(wanted) { // what is put first last is in front
		if !j.last && !unchanged(j) {
			link = append(link, "-I "+j.chain+" 1"+strings.TrimPrefix(j.rule(), "-A "+j.chain))
		}
	}
	for _, j := range wanted {
		if j.last && !unchanged(j) {
			link = append(link, j.rule())
		}
	}
	return unlink, link
}
