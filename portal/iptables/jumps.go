package iptables

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/portald/portald/platform/inet"
)

// jumps are the jumps of the table as it should be, those in one chain in their order there.
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

// ownJumps are those to our own chains. Every packet of the host passes those in filter, so they are cheap: they
// match ports and flags before the state of a flow, which costs more; there is none to the guard while no proxy port
// is open, and none to the portals while filter holds none. Only the first packets of flows go on into our chains. To
// accept those is enough on a host that drops by default: it must accept packets of open flows anyway, to receive
// answers of endpoints.
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
	all = append(all, t.checkJumps(t.checks)...) // behind what drops packets to loopback from elsewhere
	return append(all, last...)
}

// notDialled matches packets that the daemon does not send to endpoints: with an endpoint that is a frontend it would
// dial itself without end. Packets that pass OUTPUT and stay on the host are not looked up again in PREROUTING.
func (r renderer) notDialled() string {
	if r.dials == 0 {
		return ""
	}
	return fmt.Sprintf("-m mark ! --mark %#[1]x/%#[1]x ", r.dials)
}

// guardJumps come behind the refusals of new flows, so that these are not accepted.
func (r renderer) guardJumps() []jump {
	all := []jump{{chain: "FORWARD", to: r.forward}}
	if r.ip == inet.IPv4 {
		for _, chain := range []string{"INPUT", "OUTPUT"} {
			all = append(all, jump{chain: chain, match: r.fromElsewhere(), to: r.martian})
		}
	}
	return all
}
