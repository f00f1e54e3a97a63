package iptables

import (
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/writer"
)

// The kernel's nf_tables counts how often a chain is used: once for each of its rules, and once for each rule that
// leads there. It lists ten thousand chains in the time that the commands take for a few, and a flushed chain, or a
// rule that was deleted, shows in these numbers.

// lister lists the chains of a table of one family with their uses. nil: it cannot.
type lister func(table string) (map[string]int, error)

// listChains returns the lister of a family by a socket.
func listChains(conn *nfnl.Conn, family inet.Family) lister {
	number := byte(nfnl.NFPROTO_IPV4)
	if family == inet.IPv6 {
		number = nfnl.NFPROTO_IPV6
	}
	return func(table string) (map[string]int, error) {
		out := map[string]int{}
		err := conn.List(nfnl.Request(nfnl.NFT_MSG_GETCHAIN, nfnl.Dump, number, nil), func(list []byte) error {
			var in, name string
			var uses int
			err := nfnl.Decode(list, func(d *nfnl.Decoder) {
				switch d.Type() {
				case nfnl.NFTA_CHAIN_TABLE:
					in = d.String()
				case nfnl.NFTA_CHAIN_NAME:
					name = d.String()
				case nfnl.NFTA_CHAIN_USE:
					uses = int(d.Uint32())
				}
			})
			if in == table {
				out[name] = uses
			}
			return err
		})
		return out, err
	}
}

// compareUses returns an error that says which chains are used otherwise than was written.
func (t *table) compareUses(installed map[string]int) error {
	want := make(map[string]int, len(t.written))
	for name, c := range t.written {
		want[name] += strings.Count(c.rules, "\n")
		for rule := range strings.Lines(c.rules) {
			to := ledTo(rule)
			if _, ours := t.written[to]; ours {
				want[to]++
			}
		}
	}
	for _, j := range t.linked {
		want[j.to]++
	}
	var drift writer.Drift
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if is, ok := installed[name]; !ok {
			drift.Add("chain %s is missing", name)
		} else if is != want[name] {
			drift.Add("chain %s has other rules, or others lead there", name)
		}
	}
	return drift.Err()
}

// ledTo is the target of a rule of ours, or the chain that it goes to.
func ledTo(rule string) string {
	for _, option := range []string{" -j ", " -g "} {
		if i := strings.LastIndex(rule, option); i >= 0 {
			to, _, _ := strings.Cut(strings.TrimSuffix(rule[i+len(option):], "\n"), " ")
			return to
		}
	}
	return ""
}
