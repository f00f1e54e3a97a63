package iptables

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/portald/portald/proxy/service"
)

// jump is a rule of ours in a built-in chain.
type jump struct {
	chain string
	match string // with a blank at its end unless empty
	to    string
	last  bool // behind the rules of others instead of before them
}

func (j jump) rule() string { return fmt.Sprintf("-A %s %s-j %s", j.chain, j.match, j.to) }

const newFlow = "-m conntrack --ctstate NEW "

// jumps are those the table has now, those of one chain in the order in which they stand there.
func (t *table) jumps() []jump {
	all := t.ownJumps()
	for _, x := range t.extras {
		all = append(all, extraJumps(x)...)
	}
	slices.SortStableFunc(all, func(a, b jump) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func rank(j jump) int {
	if j.last {
		return 1
	}
	return 0
}

// ownJumps are those without what another room has. Every packet of the host passes those in filter. So they ask for
// little there: for ports and flags before the state of a flow, which costs more, and nothing of flows to proxy ports while
// none is open, nor of flows to Services while none is refused. Nothing but the first packets of flows goes on into our
// chains. To let those in suffices on a host that denies by default: one that did not let in what belongs to open flows would
// not hear endpoints answer either.
func (t *table) ownJumps() []jump {
	switch t.name {
	case natTable:
		all := []jump{{chain: "PREROUTING", to: t.services}, {chain: "OUTPUT", match: t.notDialled(), to: t.services}}
		if t.spreading {
			all = append(all, jump{chain: "POSTROUTING", to: t.postrouting})
		}
		return all
	case mangleTable:
		if t.mark == 0 {
			return nil
		}
		return []jump{{chain: "PREROUTING", match: "-m socket --transparent ", to: t.divert}}
	}
	var all, last []jump
	for _, match := range t.toProxyPorts(t.guarded) {
		all = append(all, jump{chain: "INPUT", match: match, to: t.guard})
		last = append(last, jump{chain: "INPUT", match: match, to: t.accept, last: true})
	}
	if len(t.tree.leaves) > 0 {
		for _, chain := range []string{"INPUT", "FORWARD", "OUTPUT"} {
			all = append(all, jump{chain: chain, match: newFlow, to: t.services})
		}
	}
	if t.spreading {
		all = append(all, t.guardJumps()...)
	}
	return append(all, last...)
}

// notDialled matches what the daemon does not send to endpoints: an endpoint that is a frontend would have it dial itself
// without end. What leaves the host by OUTPUT is not asked again in PREROUTING, if it stays on the host.
func (r renderer) notDialled() string {
	if r.dials == 0 {
		return ""
	}
	return fmt.Sprintf("-m mark ! --mark %#[1]x/%#[1]x ", r.dials)
}

// guardJumps come behind the refusal of new flows: what is refused is not let through.
func (r renderer) guardJumps() []jump {
	all := []jump{{chain: "FORWARD", to: r.forward}}
	if r.ip == service.IPv4 {
		for _, chain := range []string{"INPUT", "OUTPUT"} {
			all = append(all, jump{chain: chain, match: r.fromElsewhere(), to: r.martian})
		}
	}
	return all
}

// asForeign gives jumps as rules in chains of others.
func asForeign(jumps []jump) []foreign {
	var all []foreign
	for _, j := range jumps {
		all = append(all, foreign{j.chain, j.rule()})
	}
	return all
}
