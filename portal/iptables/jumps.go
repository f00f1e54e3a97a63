package iptables

import "fmt"

// jump is a rule of ours in a built-in chain.
type jump struct {
	chain string
	match string // with a blank at its end unless empty
	to    string
	last  bool // behind the rules of others instead of before them
}

func (j jump) rule() string { return fmt.Sprintf("-A %s %s-j %s", j.chain, j.match, j.to) }

const (
	newFlow    = "-m conntrack --ctstate NEW "
	translated = "-m conntrack --ctstate DNAT "
)

// jumps of a table, those of one chain in the order in which they stand there.
func (c chains) jumps(table string) []jump {
	if table == natTable {
		return []jump{
			{chain: "PREROUTING", to: c.services},
			{chain: "OUTPUT", to: c.services},
		}
	}
	return []jump{
		{chain: "INPUT", match: newFlow, to: c.guard},
		{chain: "INPUT", match: newFlow, to: c.services},
		{chain: "INPUT", match: translated, to: c.accept, last: true},
		{chain: "FORWARD", match: newFlow, to: c.services},
		{chain: "OUTPUT", match: newFlow, to: c.services},
	}
}
