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
		t := trail{p, own, nil}
		t.follow(base, own(base.Table, base.Name), 0)
		steps = append(steps, t.steps...)
	}
	return steps
}

type trail struct {
	packet Packet
	own    Own
	steps  []Step
}

// follow returns true if no packet like this goes on in the chain that led here.
func (t *trail) follow(c *Chain, ours bool, depth int) (ends bool) {
	if c == nil || depth > maxDepth {
		return false
	}
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
				ended = t.follow(c.Table.Chain(a.Chain), ours || leads, depth+1)
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
