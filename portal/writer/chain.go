package writer

import "github.com/portald/portald/platform/inet"

// Chain is a chain of iptables rules that the Writer of another facility needs. The iptables Writer writes, audits and
// removes it with its own chains. Its rules are fixed.
type Chain struct {
	Family inet.Family
	Table  string // nat, filter or mangle
	Name   string
	Rules  []string // as iptables-save prints them, without "-A NAME "
	From   []Jump
	First  bool // it jumps to no other chain, and is written before them where that takes several steps
}

// Jump is a rule in a built-in chain that jumps to a Chain.
type Jump struct {
	Chain string // PREROUTING, …
	Match string // as iptables-save prints it; empty = everything
	Last  bool   // behind the rules of others instead of before them
}
