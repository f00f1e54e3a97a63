package nftables

import (
	"maps"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// whole is the steps of an edit from nothing on a host that may hold something.
func (t *table) whole(e *edit) ([][]netlink.Message, error) {
	makeIt := t.message(unix.NFT_MSG_NEWTABLE, netlink.Create, unix.NFTA_TABLE_NAME, "")
	there, dormant, err := t.there()
	if err != nil {
		return nil, err
	}
	if !there {
		return append([][]netlink.Message{{makeIt}}, t.steps(e)...), nil
	}
	chains, err := t.heldChains()
	if err != nil {
		return nil, err
	}
	sets, err := t.heldSets()
	if err != nil {
		return nil, err
	}
	if dormant || t.strangeChains(e, chains) || t.strangeSets(e, sets) {
		remove := t.message(unix.NFT_MSG_DELTABLE, 0, unix.NFTA_TABLE_NAME, "")
		return append([][]netlink.Message{{remove, makeIt}}, t.steps(e)...), nil
	}
	for need := range t.state.needs.count {
		if id, ok := need.(clientsID); ok && sets[id.set().name].about != "" {
			e.lost = append(e.lost, t.state.bonds(id.owner))
		}
	}
	return t.renew(e, e.adopt(chains, sets))
}

// renew has sets that are there emptied and filled if one transaction takes all, or else changed where they differ. Those that
// packets ask after they were led are changed in any case, so that what goes may go later.
func (t *table) renew(e *edit, there []*set) ([][]netlink.Message, error) {
	var steps [][]netlink.Message
	asked := slices.IndexFunc(there, t.askedLater)
	if asked >= 0 {
		if err := t.adoptElements(e, there[asked:asked+1]); err != nil {
			return nil, err
		}
		there = slices.Delete(there, asked, asked+1)
	}
	for _, s := range there {
		steps = append(steps, []netlink.Message{t.message(unix.NFT_MSG_DELSETELEM, 0, unix.NFTA_SET_ELEM_LIST_TABLE, s.name)})
	}
	steps = append(steps, t.steps(e)...)
	size := 0
	for _, step := range steps {
		size += sizeOf(step)
	}
	if size <= t.conn.most {
		return steps, nil
	}
	err := t.adoptElements(e, there)
	return t.steps(e), err
}

// strangeChains and strangeSets tell that a table is another program's, or another version's, whose hooks and types
// differ: nothing of it is of use.
func (t *table) strangeChains(e *edit, held map[string]*heldChain) bool {
	return slices.ContainsFunc(e.chains, func(c chain) bool {
		is := held[c.name]
		return is != nil && ((c.hook == nil) != (is.hook == nil) || c.hook != nil && *c.hook != *is.hook)
	})
}

func (t *table) strangeSets(e *edit, held map[string]heldSet) bool {
	known := map[string]bool{}
	for _, s := range e.sets {
		known[s.name] = true
		if is, there := held[s.name]; there && is.about != t.described(s) {
			return true
		}
	}
	for name := range held {
		if !known[name] && !passing(name) {
			return true
		}
	}
	return false
}

// adopt leaves out sets that are there, which it returns if they are not those of clients, and adds that what nobody wants
// goes.
func (e *edit) adopt(chains map[string]*heldChain, sets map[string]heldSet) (there []*set) {
	unwanted := maps.Clone(sets)
	var missing []*set
	for _, s := range e.sets {
		if _, ok := sets[s.name]; !ok {
			missing = append(missing, s)
		} else if !s.dynamic {
			there = append(there, s)
		}
		delete(unwanted, s.name)
	}
	e.sets = missing
	for _, name := range slices.Sorted(maps.Keys(unwanted)) {
		e.goneSets = append(e.goneSets, &set{name: name})
	}
	gone := maps.Clone(chains)
	for _, c := range e.chains {
		delete(gone, c.name)
	}
	e.gone = slices.Sorted(maps.Keys(gone))
	return there
}

// askedLater tells whether packets ask a set after they were led by another.
func (t *table) askedLater(s *set) bool { return s.name == t.hairpins.name }

// adoptElements leaves out elements that are there, and adds that others go.
func (t *table) adoptElements(e *edit, there []*set) error {
	wanted := map[entry]value{}
	for _, p := range e.puts {
		wanted[p.entry] = p.value
	}
	for _, s := range there {
		err := t.heldElements(s, func(held filled) {
			v, ok := wanted[held.entry]
			if !ok && t.askedLater(s) {
				e.parting = append(e.parting, held)
			} else if !ok {
				e.drops = append(e.drops, held)
			} else if v != held.value {
				e.swaps = append(e.swaps, filled{held.entry, v})
			}
			delete(wanted, held.entry)
		})
		if err != nil {
			return err
		}
	}
	e.puts = slices.DeleteFunc(e.puts, func(p filled) bool { _, ok := wanted[p.entry]; return !ok })
	return nil
}
