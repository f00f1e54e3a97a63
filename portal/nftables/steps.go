package nftables

import (
	"slices"

	"github.com/portald/portald/platform/nfnl"
)

// createSteps create what nothing refers to yet.
func (t *table) createSteps(c *changeset) []nfnl.Step {
	var out []nfnl.Step
	for _, s := range c.createSets {
		out = append(out, nfnl.Step{t.declare(s)})
	}
	for _, chain := range c.writeChains {
		out = append(out, nfnl.Step{t.chainMessage(chain)})
	}
	for _, chain := range c.writeChains {
		out = append(out, t.rewriteChain(chain))
	}
	return out
}

// switchSteps change elements to refer to it, and delete what nothing refers to any more.
func (t *table) switchSteps(c *changeset) []nfnl.Step {
	var out []nfnl.Step
	for s, some := range bySet(c.add) {
		out = append(out, oneByOne(t.addElements(s, some))...)
	}
	for s, some := range bySet(c.replace) {
		for few := range slices.Chunk(some, maxReplaced) {
			out = append(out, slices.Concat(t.deleteElements(s, few), t.addElements(s, few)))
		}
	}
	out = append(out, t.removeSteps(c.remove)...)
	for _, chain := range c.trimChains {
		out = append(out, t.rewriteChain(chain))
	}
	return append(out, t.dropSteps(c)...)
}

// maxReplaced is how many elements get another value in one step.
const maxReplaced = 64

// retireSteps delete elements that later hooks look up.
func (t *table) retireSteps(c *changeset) []nfnl.Step { return t.removeSteps(c.retire) }

func (t *table) removeSteps(all []setElement) (out []nfnl.Step) {
	for s, some := range bySet(all) {
		out = append(out, oneByOne(t.deleteElements(s, some))...)
	}
	return out
}

// dropSteps flush all chains before they delete any, since these jump to one another.
func (t *table) dropSteps(c *changeset) []nfnl.Step {
	var out []nfnl.Step
	for _, name := range c.dropChains {
		out = append(out, nfnl.Step{t.flushMessage(name)})
	}
	for _, name := range c.dropChains {
		out = append(out, nfnl.Step{t.dropChainMessage(name)})
	}
	for _, s := range c.dropSets {
		out = append(out, nfnl.Step{t.dropSetMessage(s.name)})
	}
	return out
}

// rewriteChain gives a chain its rules, in place of those that it has.
func (t *table) rewriteChain(c chain) nfnl.Step {
	return append(nfnl.Step{t.flushMessage(c.name)}, t.ruleMessages(c)...)
}

// oneByOne makes a step of each message.
func oneByOne(messages []nfnl.Message) []nfnl.Step {
	var out []nfnl.Step
	for _, m := range messages {
		out = append(out, nfnl.Step{m})
	}
	return out
}

// bySet groups elements, which are in the order of their sets.
func bySet(all []setElement) func(func(*set, []setElement) bool) {
	return func(yield func(*set, []setElement) bool) {
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(e setElement) bool { return e.set != all[0].set })
			n = choose(n < 0, len(all), n)
			if !yield(all[0].set, all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}
