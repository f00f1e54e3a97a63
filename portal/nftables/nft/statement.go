// Package nft is the language of nftables: chains, rules of statements, and sets, each with both of its forms, the text
// that the command nft reads and the messages that the kernel takes. It knows no portals.
//
// A Rule is a list of statements, matches and actions; a Statement compares or stores Expressions, and looks Keys of
// them up in a Set. Text and netlink of one thing stand beside each other in its file, and the golden file of the tests
// has both. Table makes the messages that create and change all this in the kernel; Listed types hold what the kernel
// lists.
//
// A new expression is one entry in expression.go. A new statement is one type with the two methods of Statement, a
// function that returns it, and a rule in statement_test.go.
package nft

import "strings"

// Rule is statements, which are evaluated from left to right until one does not match or gives a verdict.
type Rule []Statement

// Statement is a match or an action. Each type has both forms of its kind: nft's text, and the kernel's expressions,
// which do not use what earlier statements left in registers. A new statement is one new type.
type Statement interface {
	text(f Family) string
	encode(p *program)
}

func (r Rule) Text(f Family) string {
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
