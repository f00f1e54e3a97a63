package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/portal/writer"
)

// compare returns an error that says how the chains that a host holds differ from those that were written.
func (t *table) compare(written ruleset, held saved) error {
	var found writer.Drift
	for _, name := range slices.Sorted(maps.Keys(written)) {
		is, ok := held.chains[name]
		if want := written[name].rules; !ok {
			found.Add("chain %s is missing", name)
		} else if is.rules != want {
			found.Add("%s", difference(name, want, is.rules))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held.chains)) {
		if _, ok := written[name]; !ok {
			found.Add("chain %s is not ours any more", name)
		}
	}
	unlink, link := relink(t.linked, held.jumps)
	if len(unlink)+len(link) > 0 {
		found.Add("%s", jumpDifference(t.linked, held.jumps))
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	return nil
}

// difference names the first rule that is missing from a chain, or else the first that should not be there.
func difference(chain, written, held string) string {
	want, have := strings.Split(written, "\n"), strings.Split(held, "\n")
	for _, rule := range want {
		if !slices.Contains(have, rule) {
			return fmt.Sprintf("no rule \"%s\"", rule)
		}
	}
	for _, rule := range have {
		if !slices.Contains(want, rule) {
			return fmt.Sprintf("strange rule \"%s\"", rule)
		}
	}
	return fmt.Sprintf("the rules of chain %s are in another order or there twice", chain)
}

func jumpDifference(want []jump, held []foreign) string {
	for _, j := range want {
		if !slices.Contains(held, foreign{j.chain, j.rule()}) {
			return fmt.Sprintf("no rule \"%s\"", j.rule())
		}
	}
	return "rules that jump to our chains are there twice, in another order, or not ours"
}
