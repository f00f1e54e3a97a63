package iptables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/portal/writer"
)

// checkExtra refuses a chain of another Writer that a later run would not take for ours.
func (c chains) checkExtra(x writer.Chain) error {
	_, ours := c.depthOf(x.Name)
	switch {
	case !slices.Contains([]string{natTable, filterTable, mangleTable}, x.Table):
		return fmt.Errorf("extra chain %s: table %q: want nat, filter or mangle", x.Name, x.Table)
	case !ours || len(x.Name) > maxName:
		return fmt.Errorf("extra chain %s: want a name of Options.ExtraNames, of at most %d characters", x.Name, maxName)
	}
	return nil
}

func extraDepth(x writer.Chain) depth {
	if x.First {
		return atMark
	}
	return atTop
}

// extraRules are the rules of such a chain.
func extraRules(x writer.Chain) string {
	var b strings.Builder
	for _, rule := range x.Rules {
		b.WriteString("-A " + x.Name + " " + rule + "\n")
	}
	return b.String()
}

func extraJumps(x writer.Chain) []jump {
	var all []jump
	for _, from := range x.From {
		match := from.Match
		if match != "" {
			match += " "
		}
		all = append(all, jump{from.Chain, match, x.Name, from.Last})
	}
	return all
}
