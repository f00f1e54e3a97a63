package iptables

import (
	"fmt"
	"regexp"
	"slices"
)

// chains knows the names of our chains. They are the same in all tables, and no other name is ever touched.
type chains struct {
	prefix    string
	services  string // every portal starts here
	nodes     string // node ports
	addresses string // all other portals
	guard     string // refuses what went straight at a proxy port
	accept    string // lets translated flows to a proxy port in
	divert    string // marks replies to clients' addresses that the daemon dials from
	ours      *regexp.Regexp
}

// A chain's name has at most 28 characters; the longest of ours adds 13 to the prefix.
const maxPrefix = 28 - len("-NP-TCP-65472")

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

func newChains(prefix string) (chains, error) {
	if !prefixForm.MatchString(prefix) || len(prefix) > maxPrefix {
		return chains{}, fmt.Errorf("chain prefix %q: want at most %d of A-Z, 0-9 and -, a letter first", prefix, maxPrefix)
	}
	const names = `(SERVICES|NODEPORTS|GUARD|ACCEPT|DIVERT|IP|IP-[01][0-9A-F](-[01][0-9A-F])?|NP-(TCP|UDP)-[0-9]+)`
	return chains{
		prefix:    prefix,
		services:  prefix + "-SERVICES",
		nodes:     prefix + "-NODEPORTS",
		addresses: prefix + "-IP",
		guard:     prefix + "-GUARD",
		accept:    prefix + "-ACCEPT",
		divert:    prefix + "-DIVERT",
		ours:      regexp.MustCompile(`^` + prefix + `-` + names + `$`),
	}, nil
}

// own tells whether a chain is one of ours, be it of an earlier run.
func (c chains) own(name string) bool { return c.ours.MatchString(name) }

// depth tells how far below a built-in chain one of ours may stand: rules lead from lower depths to higher ones.
func depth(name string) int {
	return slices.IndexFunc(forms, func(form *regexp.Regexp) bool { return form.MatchString(name) })
}

// forms of names by depth.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`-(SERVICES|GUARD|ACCEPT|DIVERT)$`),
	regexp.MustCompile(`-(IP|NODEPORTS)$`),
	regexp.MustCompile(`-IP-[0-9A-F]{2}$`),
	regexp.MustCompile(`-(IP-[0-9A-F]{2}-[0-9A-F]{2}|NP-(TCP|UDP)-[0-9]+)$`),
}
