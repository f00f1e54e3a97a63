package netfilter

import (
	"fmt"
	"slices"
)

// Hit is a rule that keeps a packet from the path that it would take without the rule, or may.
type Hit struct {
	Base    *Chain // where the packet entered
	Chain   *Chain // where the rule is
	Rule    *Rule  // nil: it is the policy of Base
	Kind    Kind
	Certain bool // false: not all that decides it is known
}

// String is the rule with its table, and what it does.
func (h Hit) String() string {
	if h.Rule == nil {
		return fmt.Sprintf("%s: chain %s has the policy %s", h.Chain.Table, h.Chain.Name, h.Kind)
	}
	return fmt.Sprintf("%s, chain %s: %s", h.Chain.Table, h.Chain.Name, h.Rule.Text)
}

// Own tells whether a chain of a table is the caller's.
type Own func(t *Table, chain string) bool

// Meets returns the rules of others that decide about a packet, in the order in which it meets them, from where it
// enters the hook, or from behind NAT, until the caller's own rules translate it, or something certainly ends its way.
// Own rules that accept it are taken to match.
func (r *Ruleset) Meets(p Packet, own Own) []Hit {
	var hits []Hit
	for _, base := range r.bases(p) {
		w := walk{packet: p, own: own, base: base, passed: map[visit]outcome{}}
		ended := w.enter()
		hits = append(hits, w.hits...)
		if ended {
			break
		}
	}
	return hits
}

// bases are the base chains that a packet passes, in order; base chains of equal priority in the order of the listing.
func (r *Ruleset) bases(p Packet) (out []*Chain) {
	for _, t := range r.Tables {
		if !t.serves(p.family()) {
			continue
		}
		for _, c := range t.Base() {
			hooked := c.Hook == p.Hook || c.Hook == Ingress && p.Hook == Prerouting && !p.Behind
			behind := c.Hook != Ingress && c.Priority > PriorityNAT
			inNAT := p.Hook == Prerouting || p.Hook == Output
			if hooked && (!inNAT || behind == p.Behind) {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *Chain) int { return a.order() - b.order() })
	return out
}

// order is the priority, with everything of Ingress first.
func (c *Chain) order() int {
	if c.Hook == Ingress {
		return c.Priority - 1<<20
	}
	return c.Priority
}

// walk is a packet in a base chain.
type walk struct {
	packet Packet
	own    Own
	base   *Chain
	hits   []Hit

	mayAccept bool              // a rule may have accepted it
	passed    map[visit]outcome // how it left chains: many rules may jump to one, over many levels
}

// visit is a way to come to a chain. The same way meets the same rules.
type visit struct {
	chain     *Chain
	sure      Answer
	mayAccept bool
}

// outcome tells how a packet leaves a chain.
type outcome uint8

const (
	through  outcome = iota // at the end of the chain, or by return
	accepted                // by this base chain
	ended                   // it goes elsewhere, or nowhere
)

// enter returns true if the packet does not reach the next base chain as it is.
func (w *walk) enter() bool {
	sure := Yes
	if w.base.Hook == Ingress || w.base.Priority == PriorityNAT && !w.hasOwnRule() {
		sure = Maybe // of one device; or the order among chains of one priority is not known
	}
	if w.own(w.base.Table, w.base.Name) {
		return w.base.Type == "nat"
	}
	switch w.pass(w.base, sure) {
	case ended:
		return sure == Yes
	case accepted:
		return false
	}
	if w.base.Policy != Drop {
		return false
	}
	w.hit(w.base, nil, Drop, sure)
	return w.hits[len(w.hits)-1].Certain
}

// hasOwnRule tells whether own rules are in this base chain: rules of others stand before or behind them.
func (w *walk) hasOwnRule() bool {
	return slices.ContainsFunc(w.base.Rules, func(r *Rule) bool {
		return slices.ContainsFunc(r.Actions, func(a Action) bool { return w.leadsToOwn(w.base, a) })
	})
}

// leadsToOwn tells whether an action of a chain leads to an own chain.
func (w *walk) leadsToOwn(c *Chain, a Action) bool {
	return (a.Kind == Jump || a.Kind == Goto) && w.own(c.Table, a.Chain)
}

// pass is the packet's way through a chain. It takes a loop of jumps, which the kernel refuses, to lead nowhere.
func (w *walk) pass(c *Chain, sure Answer) outcome {
	if c == nil {
		return through
	}
	v := visit{c, sure, w.mayAccept}
	to, known := w.passed[v]
	if !known {
		w.passed[v] = through
		to = w.traverse(c, sure)
		w.passed[v] = to
	}
	return to
}

func (w *walk) traverse(c *Chain, sure Answer) outcome {
	for _, r := range c.Rules {
		for _, a := range r.Actions {
			matches := w.matches(c, a)
			if matches == No {
				continue
			}
			to, leaves := w.act(c, r, a, min(sure, matches))
			switch {
			case leaves && matches == Yes:
				return to
			case leaves && to != ended:
				sure = Maybe
				w.mayAccept = w.mayAccept || to == accepted
			}
		}
	}
	return through
}

// matches takes own rules that lead to own chains, or accept, to be made for this packet.
func (w *walk) matches(c *Chain, a Action) Answer {
	matches := a.matches(w.packet)
	if matches == Maybe && (w.leadsToOwn(c, a) || a.Kind == Accept && w.own(c.Table, c.Name)) {
		return Yes
	}
	return matches
}

// act returns how the packet leaves the chain by an action, if it does.
func (w *walk) act(c *Chain, r *Rule, a Action, sure Answer) (to outcome, leaves bool) {
	ours := w.own(c.Table, c.Name)
	switch a.Kind {
	case Accept, Return:
		if w.base.Type == "nat" && c == w.base && w.hasOwnRule() {
			w.hit(c, r, Accept, sure) // own rules behind it are passed over
		}
		return choose(a.Kind == Accept, accepted, through), true
	case Drop, Reject, Translate, Divert:
		if !ours {
			w.hit(c, r, a.Kind, sure)
		}
		return ended, !ours
	case Queue, Untrack:
		if !ours {
			w.hit(c, r, a.Kind, sure)
		}
	case Jump, Goto:
		if w.base.Type == "nat" && w.leadsToOwn(c, a) {
			return ended, true
		}
		to = w.pass(c.Table.Chain(a.Chain), sure)
		return to, to != through || a.Kind == Goto
	}
	return through, false
}

func (w *walk) hit(c *Chain, r *Rule, kind Kind, sure Answer) {
	w.hits = append(w.hits, Hit{w.base, c, r, kind, sure == Yes && !w.mayAccept})
}

func choose[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
