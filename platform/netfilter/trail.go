package netfilter

import "slices"

// Step is a rule on the way of a packet.
type Step struct {
	Chain *Chain
	Rule  *Rule
}

// Trail returns the own rules that a packet may match in the hook, in order, from the rules of base chains that lead to
// own chains on.
func (r *Ruleset) Trail(p Packet, own Own) []Step {
	var steps []Step
	for _, base := range r.bases(p) {
		t := trail{packet: p, own: own, ends: map[branch]bool{}}
		t.follow(base, own(base.Table, base.Name))
		steps = append(steps, t.steps...)
	}
	return steps
}

type trail struct {
	packet Packet
	own    Own
	steps  []Step
	ends   map[branch]bool // of what was followed: many rules may jump to one chain, over many levels
}

// branch is a chain, and whether an own chain led there.
type branch struct {
	chain *Chain
	ours  bool
}

// follow returns true if no packet like this goes on in the chain that led here. It takes a loop of jumps, which the
// kernel refuses, to lead nowhere.
func (t *trail) follow(c *Chain, ours bool) (ends bool) {
	if c == nil {
		return false
	}
	b := branch{c, ours}
	ends, known := t.ends[b]
	if !known {
		t.ends[b] = false
		ends = t.traverse(c, ours)
		t.ends[b] = ends
	}
	return ends
}

func (t *trail) traverse(c *Chain, ours bool) (ends bool) {
	for _, r := range c.Rules {
		for _, a := range r.Actions {
			matches := a.matches(t.packet)
			leads := (a.Kind == Jump || a.Kind == Goto) && t.own(c.Table, a.Chain)
			if matches == No || !ours && !leads {
				continue
			}
			t.add(Step{c, r})
			ended := false
			switch a.Kind {
			case Jump, Goto:
				ended = t.follow(c.Table.Chain(a.Chain), ours || leads)
			case Return:
				if matches == Yes {
					return false
				}
			case Accept, Drop, Reject, Translate, Divert:
				ended = true
			}
			if matches == Yes && (ended || a.Kind == Goto) {
				return ended
			}
		}
	}
	return false
}

func (t *trail) add(s Step) {
	if !slices.Contains(t.steps, s) {
		t.steps = append(t.steps, s)
	}
}
