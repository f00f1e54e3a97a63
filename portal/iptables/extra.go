package iptables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/proxy/service"
)

// Extra is a chain of another room that this Writer writes, audits and removes with its own. Its rules are fixed.
type Extra struct {
	Family service.IPFamily
	Table  string   // nat, filter or mangle
	Name   string   // after the prefix and a -; IPVS- and more, or one of kube-proxy's names
	Rules  []string // each as iptables-save prints it, without "-A CHAIN "; {prefix} stands for Options.Prefix
	From   []Jump
}

// Jump is a rule in a built-in chain that leads to an Extra. Both types are the same in the room that has the chains.
type Jump = struct {
	Chain string // PREROUTING, …
	Match string // as iptables-save prints it; empty = everything
	Last  bool   // behind the rules of others instead of before them
}

// placeholder stands for the prefix in rules of Extras.
const placeholder = "{prefix}"

func (x Extra) chain(prefix string) string { return prefix + "-" + x.Name }

func (x Extra) check(names chains) error {
	switch {
	case !slices.Contains([]string{natTable, filterTable, mangleTable}, x.Table):
		return fmt.Errorf("extra chain %s: table %q: want nat, filter or mangle", x.Name, x.Table)
	case !names.own(x.chain(names.prefix)) || len(x.chain(names.prefix)) > maxName:
		return fmt.Errorf("extra chain %s: want IPVS- and more, or a name of kube-proxy's, of %d characters with the prefix", x.Name, maxName)
	}
	return nil
}

func (x Extra) rules(prefix string) string {
	var b strings.Builder
	for _, rule := range x.Rules {
		b.WriteString("-A " + x.chain(prefix) + " " + strings.ReplaceAll(rule, placeholder, prefix) + "\n")
	}
	return b.String()
}

func (x Extra) jumps(prefix string) []jump {
	var all []jump
	for _, from := range x.From {
		match := strings.ReplaceAll(from.Match, placeholder, prefix)
		if match != "" {
			match += " "
		}
		all = append(all, jump{from.Chain, match, x.chain(prefix), from.Last})
	}
	return all
}
