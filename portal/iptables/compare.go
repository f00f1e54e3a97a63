package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/portal/writer"
)

// compare returns an error that says how the chains that a host holds differ from those that were written.
func (t *table) compare(written ruleset, installed saved) error {
	var drift writer.Drift
	for _, name := range slices.Sorted(maps.Keys(written)) {
		is, ok := installed.chains[name]
		if want := written[name].rules; !ok {
			drift.Add("chain %s is missing", name)
		} else if is.rules != want {
			drift.Add("%s", difference(name, want, is.rules))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(installed.chains)) {
		if _, ok := written[name]; !ok {
			drift.Add("chain %s is not ours any more", name)
		}
	}
	unlink, link := relink(t.linked, installed.jumps)
	if len(unlink)+len(link) > 0 {
		drift.Add("%s", jumpDifference(t.linked, installed.jumps))
	}
	if err := drift.Err(); err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	return nil
}

// difference names the first rule that is missing from a chain, or else the first that should not be there.
func difference(chain, written, installed string) string {
	want, have := strings.Split(written, "\n"), strings.Split(installed, "\n")
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

func jumpDifference(want []jump, installed []foreign) string {
	for _, j := range want {
		if !slices.Contains(installed, foreign{j.chain, j.rule()}) {
			return fmt.Sprintf("no rule \"%s\"", j.rule())
		}
	}
	return "rules that jump to our chains are there twice, in another order, or not ours"
}
