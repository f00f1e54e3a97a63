package nftables

import "strings"

// chain is a chain with its rules; with a hook the kernel enters it by itself.
type chain struct {
	name  string
	hook  *hook
	rules []rule
}

// hook is where packets enter a base chain. Priorities are numbers: old versions of nft refuse some of their names.
type hook struct {
	kind     string // "nat" or "filter"
	at       string
	priority int
}

// rule is statements, which are evaluated from left to right until one does not match or gives a verdict.
type rule []statement

// statement is a match or an action. Each type has both forms of its kind: nft's text, and the kernel's expressions,
// which do not use what earlier statements left in registers. A new statement is one new type.
type statement interface {
	text(f family) string
	encode(p *program)
}

func (r rule) text(f family) string {
	words := make([]string, len(r))
	for i, s := range r {
		words[i] = s.text(f)
	}
	return strings.Join(words, " ")
}

func choose[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
