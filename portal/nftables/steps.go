package nftables

import (
	"slices"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/nft"
)

// createSteps create what nothing refers to yet.
func createSteps(t *nft.Table, c *changeset) []nfnl.Step {
	var out []nfnl.Step
	for _, s := range c.createSets {
		out = append(out, nfnl.Step{t.CreateSet(s)})
	}
	for _, chain := range c.writeChains {
		out = append(out, nfnl.Step{t.CreateChain(chain)})
	}
	for _, chain := range c.writeChains {
		out = append(out, rewriteChain(t, chain))
	}
	return out
}

// switchSteps change elements to refer to it, and delete what nothing refers to any more.
func switchSteps(t *nft.Table, c *changeset) []nfnl.Step {
	var out []nfnl.Step
	for s, some := range bySet(c.add) {
		out = append(out, oneByOne(t.AddElements(s, some))...)
	}
	for s, some := range bySet(c.replace) {
		for few := range slices.Chunk(some, maxReplaced) {
			out = append(out, slices.Concat(t.DeleteElements(s, few), t.AddElements(s, few)))
		}
	}
	out = append(out, removeSteps(t, c.remove)...)
	for _, chain := range c.trimChains {
		out = append(out, rewriteChain(t, chain))
	}
	return append(out, dropSteps(t, c)...)
}

// maxReplaced is how many elements get another value in one step.
const maxReplaced = 64

// retireSteps delete elements that later hooks look up.
func retireSteps(t *nft.Table, c *changeset) []nfnl.Step { return removeSteps(t, c.retire) }

func removeSteps(t *nft.Table, all []nft.SetElement) (out []nfnl.Step) {
	for s, some := range bySet(all) {
		out = append(out, oneByOne(t.DeleteElements(s, some))...)
	}
	return out
}

// dropSteps flush all chains before they delete any, since these jump to one another.
func dropSteps(t *nft.Table, c *changeset) []nfnl.Step {
	var out []nfnl.Step
	for _, name := range c.dropChains {
		out = append(out, nfnl.Step{t.FlushChain(name)})
	}
	for _, name := range c.dropChains {
		out = append(out, nfnl.Step{t.DeleteChain(name)})
	}
	for _, s := range c.dropSets {
		out = append(out, nfnl.Step{t.DeleteSet(s.Name)})
	}
	return out
}

// rewriteChain gives a chain its rules, in place of those that it has.
func rewriteChain(t *nft.Table, c nft.Chain) nfnl.Step {
	return append(nfnl.Step{t.FlushChain(c.Name)}, t.AppendRules(c)...)
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
func bySet(all []nft.SetElement) func(func(*nft.Set, []nft.SetElement) bool) {
	return func(yield func(*nft.Set, []nft.SetElement) bool) {
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(e nft.SetElement) bool { return e.Set != all[0].Set })
			if n < 0 {
				n = len(all)
			}
			if !yield(all[0].Set, all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}
