package nftables

import (
	"maps"
	"slices"

	"github.com/portald/portald/platform/nfnl"
)

// rewrite are the steps of a changeset from no table, on a host that may have a table. One of ours is changed, another
// is deleted first.
func (t *table) rewrite(c *changeset) ([]nfnl.Step, error) {
	create := t.tableMessage(nfnl.NFT_MSG_NEWTABLE)
	exists, dormant, err := t.exists()
	if err != nil {
		return nil, err
	}
	if !exists {
		return append([]nfnl.Step{{create}}, t.allSteps(c)...), nil
	}
	chains, err := t.listChains()
	if err != nil {
		return nil, err
	}
	sets, err := t.listSets()
	if err != nil {
		return nil, err
	}
	if dormant || foreignChains(c, chains) || foreignSets(c, sets) {
		return append([]nfnl.Step{{t.tableMessage(nfnl.NFT_MSG_DELTABLE), create}}, t.allSteps(c)...), nil
	}
	for id := range t.state.shared.Counts() {
		if id, ok := id.(clientsID); ok && sets[id.name()].description != "" {
			c.unbind = append(c.unbind, t.state.affinity(id.owner))
		}
	}
	return t.refill(c, c.adopt(chains, sets))
}

// allSteps are those of a changeset but for what is retired later.
func (t *table) allSteps(c *changeset) []nfnl.Step {
	return slices.Concat(t.createSteps(c), t.switchSteps(c))
}

// refill flushes existing sets and adds all elements, if one transaction has room for that, or else changes the
// elements that differ. Sets from which elements are retired are changed in any case.
func (t *table) refill(c *changeset, existing []*set) ([]nfnl.Step, error) {
	if i := slices.IndexFunc(existing, t.state.retires); i >= 0 {
		if err := t.adoptElements(c, existing[i:i+1]); err != nil {
			return nil, err
		}
		existing = slices.Delete(existing, i, i+1)
	}
	var steps []nfnl.Step
	for _, s := range existing {
		steps = append(steps, nfnl.Step{t.flushSetMessage(s.name)})
	}
	steps = append(steps, t.allSteps(c)...)
	size := 0
	for _, step := range steps {
		size += nfnl.Size(step)
	}
	if size <= t.conn.MaxBatch {
		return steps, nil
	}
	err := t.adoptElements(c, existing)
	return t.allSteps(c), err
}

// foreignChains tells whether a table was written by another program, or a version with other hooks.
func foreignChains(c *changeset, listed map[string]*listedChain) bool {
	return slices.ContainsFunc(c.writeChains, func(c chain) bool {
		is := listed[c.name]
		return is != nil && !sameHook(is.hook, c.hook)
	})
}

// foreignSets tells the same by sets of other types or other names.
func foreignSets(c *changeset, listed map[string]listedSet) bool {
	known := map[string]bool{}
	for _, s := range c.createSets {
		known[s.name] = true
		if is, exists := listed[s.name]; exists && is.description != s.description() {
			return true
		}
	}
	for name := range listed {
		if !known[name] && !isOptional(name) {
			return true
		}
	}
	return false
}

// adopt removes from the changeset what exists already, and adds that other chains and sets are dropped. It returns the
// existing sets whose elements may differ: those of clients keep theirs.
func (c *changeset) adopt(chains map[string]*listedChain, sets map[string]listedSet) (existing []*set) {
	unwanted := maps.Clone(sets)
	var missing []*set
	for _, s := range c.createSets {
		if _, ok := sets[s.name]; !ok {
			missing = append(missing, s)
		} else if !s.dynamic {
			existing = append(existing, s)
		}
		delete(unwanted, s.name)
	}
	c.createSets = missing
	for _, name := range slices.Sorted(maps.Keys(unwanted)) {
		c.dropSets = append(c.dropSets, &set{name: name})
	}
	drop := maps.Clone(chains)
	for _, chain := range c.writeChains {
		delete(drop, chain.name)
	}
	c.dropChains = slices.Sorted(maps.Keys(drop))
	return existing
}

// adoptElements does the same for elements of sets.
func (t *table) adoptElements(c *changeset, sets []*set) error {
	wanted := map[entry]value{}
	for _, e := range c.add {
		wanted[e.entry] = e.value
	}
	for _, s := range sets {
		err := t.listElements(s, func(listed setElement) {
			v, ok := wanted[listed.entry]
			switch {
			case !ok && t.state.retires(s):
				c.retire = append(c.retire, listed)
			case !ok:
				c.remove = append(c.remove, listed)
			case v != listed.value:
				c.replace = append(c.replace, setElement{listed.entry, v})
			}
			delete(wanted, listed.entry)
		})
		if err != nil {
			return err
		}
	}
	c.add = slices.DeleteFunc(c.add, func(e setElement) bool { _, missing := wanted[e.entry]; return !missing })
	return nil
}
