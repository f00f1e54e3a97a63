package nftables

import (
	"maps"
	"slices"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
)

// rewrite are the steps of a changeset from no table, on a host that may have a table. One of ours is changed, another
// is deleted first.
func (t *table) rewrite(c *changeset) ([]nfnl.Step, error) {
	create := t.kernel.wire.Create()
	exists, dormant, err := t.kernel.exists()
	if err != nil {
		return nil, err
	}
	if !exists {
		return append([]nfnl.Step{{create}}, t.allSteps(c)...), nil
	}
	chains, err := t.kernel.listChains()
	if err != nil {
		return nil, err
	}
	sets, err := t.kernel.listSets()
	if err != nil {
		return nil, err
	}
	if dormant || foreignChains(c, chains) || foreignSets(c, sets) {
		return append([]nfnl.Step{{t.kernel.wire.Remove(), create}}, t.allSteps(c)...), nil
	}
	for id := range t.state.shared.Counts() {
		if id, ok := id.(layout.ClientsID); ok && sets[id.Name()].Description != "" {
			c.unbind = append(c.unbind, t.state.affinity(id.Owner))
		}
	}
	return t.refill(c, c.adopt(chains, sets))
}

// allSteps returns all steps of a changeset except the removals that come later.
func (t *table) allSteps(c *changeset) []nfnl.Step {
	return slices.Concat(createSteps(t.kernel.wire, c), switchSteps(t.kernel.wire, c))
}

// refill flushes existing sets and adds all elements, if one transaction has room for that, or else changes the
// elements that differ. Sets from which elements are retired, and those that count, are changed in any case.
func (t *table) refill(c *changeset, existing []*nft.Set) ([]nfnl.Step, error) {
	var kept, rest []*nft.Set
	for _, s := range existing {
		if s.Counts || t.state.retires(s) {
			kept = append(kept, s)
		} else {
			rest = append(rest, s)
		}
	}
	if err := t.adoptElements(c, kept); err != nil {
		return nil, err
	}
	existing = rest
	var steps []nfnl.Step
	for _, s := range existing {
		steps = append(steps, nfnl.Step{t.kernel.wire.FlushSet(s.Name)})
	}
	steps = append(steps, t.allSteps(c)...)
	size := 0
	for _, step := range steps {
		size += nfnl.Size(step)
	}
	if size <= t.kernel.conn.MaxBatch {
		return steps, nil
	}
	err := t.adoptElements(c, existing)
	return t.allSteps(c), err
}

// foreignChains tells whether a table was written by another program, or a version with other hooks.
func foreignChains(c *changeset, listed map[string]*nft.ListedChain) bool {
	return slices.ContainsFunc(c.writeChains, func(c nft.Chain) bool {
		is := listed[c.Name]
		return is != nil && !sameHook(is.Hook, c.Hook)
	})
}

// foreignSets tells the same by sets of other types or other names.
func foreignSets(c *changeset, listed map[string]nft.ListedSet) bool {
	known := map[string]bool{}
	for _, s := range c.createSets {
		known[s.Name] = true
		if is, exists := listed[s.Name]; exists && is.Description != s.Description() {
			return true
		}
	}
	for name := range listed {
		if !known[name] && !layout.IsOptional(name) {
			return true
		}
	}
	return false
}

// adopt removes from the changeset what exists already, and adds that other chains and sets are dropped. It returns the
// existing sets whose elements may differ: sets of clients keep theirs.
func (c *changeset) adopt(chains map[string]*nft.ListedChain, sets map[string]nft.ListedSet) (existing []*nft.Set) {
	unwanted := maps.Clone(sets)
	var missing []*nft.Set
	for _, s := range c.createSets {
		if _, ok := sets[s.Name]; !ok {
			missing = append(missing, s)
		} else if !s.Dynamic {
			existing = append(existing, s)
		}
		delete(unwanted, s.Name)
	}
	c.createSets = missing
	for _, name := range slices.Sorted(maps.Keys(unwanted)) {
		c.dropSets = append(c.dropSets, &nft.Set{Name: name})
	}
	drop := maps.Clone(chains)
	for _, chain := range c.writeChains {
		delete(drop, chain.Name)
	}
	c.dropChains = slices.Sorted(maps.Keys(drop))
	return existing
}

// adoptElements does the same for elements of sets.
func (t *table) adoptElements(c *changeset, sets []*nft.Set) error {
	wanted := map[nft.Entry]nft.Value{}
	for _, e := range c.add {
		wanted[e.Entry] = e.Value
	}
	for _, s := range sets {
		err := t.kernel.listElements(s, func(listed nft.SetElement) {
			v, ok := wanted[listed.Entry]
			switch {
			case !ok && t.state.retires(s):
				c.retire = append(c.retire, listed)
			case !ok:
				c.remove = append(c.remove, listed)
			case v != listed.Value:
				c.replace = append(c.replace, nft.SetElement{Entry: listed.Entry, Value: v})
			}
			delete(wanted, listed.Entry)
		})
		if err != nil {
			return err
		}
	}
	c.add = slices.DeleteFunc(c.add, func(e nft.SetElement) bool { _, missing := wanted[e.Entry]; return !missing })
	return nil
}
