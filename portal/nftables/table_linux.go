package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/portal"
)

// table is the one of a family, and what it was given.
type table struct {
	rules
	conn  *conn
	name  string
	state *state
	ids   uint32 // the last number of an anonymous set

	chains map[string]*heldChain // as the host had them when it was last written to

	looked time.Time // when all elements were known to be right

	diverts atomic.Bool
}

// open finds out whether the kernel can serve the family.
func open(c *conn, r rules, name string) (*table, error) {
	t := &table{rules: r, conn: c, name: name, state: newState(r)}
	if _, _, err := t.there(); err != nil {
		return nil, fmt.Errorf("ask the kernel for tables of %s: %w", r.family.name, err)
	}
	return t, nil
}

// replace gives every chain its rules and every map its elements anew, and leaves to their sets the clients that are bound
// to endpoints. In one transaction all of that takes effect at once.
func (t *table) replace(ctx context.Context, portals []portal.Portal) error {
	s, e := whole(t.rules, portals)
	t.state = s
	steps, err := t.whole(e)
	if err != nil {
		return err
	}
	if err := t.conn.commit(ctx, steps); err != nil {
		return err
	}
	t.diverts.Store(t.mark != 0)
	t.looked = time.Now()
	if err := t.forget(ctx, e.lost); err != nil {
		return err
	}
	t.chains, err = t.heldChains()
	return err
}

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

// renew has sets that are there emptied and filled if one transaction takes all, or else changed where they differ.
func (t *table) renew(e *edit, there []*set) ([][]netlink.Message, error) {
	var steps [][]netlink.Message
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

// adoptElements leaves out elements that are there, and adds that others go.
func (t *table) adoptElements(e *edit, there []*set) error {
	wanted := map[entry]value{}
	for _, p := range e.puts {
		wanted[p.entry] = p.value
	}
	for _, s := range there {
		err := t.heldElements(s, func(held filled) {
			v, ok := wanted[held.entry]
			if !ok {
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

func (t *table) update(ctx context.Context, changes []portal.Change) error {
	ours := slices.DeleteFunc(slices.Clone(changes), func(c portal.Change) bool { return !t.owns(c.Frontend.Addr.Addr()) })
	e := t.state.change(ours)
	if e.empty() {
		return nil
	}
	if err := t.conn.commit(ctx, t.steps(e)); err != nil {
		return err
	}
	if err := t.forget(ctx, e.lost); err != nil {
		return err
	}
	return t.note(e)
}

// forget unbinds clients from endpoints that are gone: one that comes back has no claim to them. Others go on to be bound
// and to be forgotten meanwhile, so that it may take more than one try.
func (t *table) forget(ctx context.Context, all []bonds) error {
	for _, b := range all {
		for range 3 {
			var stale []filled
			err := t.heldElements(b.of, func(e filled) {
				if !b.with[e.slot] {
					stale = append(stale, e)
				}
			})
			if err != nil {
				return err
			}
			var steps [][]netlink.Message
			for _, m := range t.elements(unix.NFT_MSG_DELSETELEM, t.name, b.of, 0, stale) {
				steps = append(steps, []netlink.Message{m})
			}
			if err = t.conn.commit(ctx, steps); err == nil {
				break
			} else if !errors.Is(err, syscall.ENOENT) {
				return err
			}
		}
	}
	return nil
}

// note keeps what the host made of an edit, for audits.
func (t *table) note(e *edit) error {
	for _, name := range e.gone {
		delete(t.chains, name)
	}
	for _, c := range slices.Concat(e.chains, e.late) {
		t.chains[c.name] = &heldChain{hook: c.hook, accepts: true}
		if err := t.heldRules(c.name, t.chains); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) cleanup(ctx context.Context) error {
	t.state = newState(t.rules)
	t.diverts.Store(false)
	there, _, err := t.there()
	if !there || err != nil {
		return err
	}
	return t.conn.commit(ctx, [][]netlink.Message{{t.message(unix.NFT_MSG_DELTABLE, 0, unix.NFTA_TABLE_NAME, "")}})
}

// steps are the messages of an edit, in groups that have to take effect at once.
func (t *table) steps(e *edit) [][]netlink.Message {
	var out [][]netlink.Message
	step := func(messages ...netlink.Message) { out = append(out, messages) }
	for _, s := range e.sets {
		step(t.declare(t.name, s))
	}
	for _, c := range e.chains {
		step(t.chainMessage(c))
	}
	for _, c := range e.chains {
		step(t.body(c)...)
	}
	for s, some := range bySet(e.puts) {
		for _, m := range t.elements(unix.NFT_MSG_NEWSETELEM, t.name, s, 0, some) {
			step(m)
		}
	}
	for s, some := range bySet(e.swaps) {
		for few := range slices.Chunk(some, swapped) {
			step(slices.Concat(t.elements(unix.NFT_MSG_DELSETELEM, t.name, s, 0, few),
				t.elements(unix.NFT_MSG_NEWSETELEM, t.name, s, 0, few))...)
		}
	}
	for s, some := range bySet(e.drops) {
		for _, m := range t.elements(unix.NFT_MSG_DELSETELEM, t.name, s, 0, some) {
			step(m)
		}
	}
	for _, c := range e.late {
		step(t.body(c)...)
	}
	return append(out, t.removal(e)...)
}

// swapped is how many elements change their value in one step.
const swapped = 64

// bySet calls each with the elements of one set. They are in order.
func bySet(all []filled) func(func(*set, []filled) bool) {
	return func(yield func(*set, []filled) bool) {
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(e filled) bool { return e.set != all[0].set })
			n = choose(n < 0, len(all), n)
			if !yield(all[0].set, all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// removal empties all that goes before it deletes any: chains lead to one another.
func (t *table) removal(e *edit) [][]netlink.Message {
	var flush, remove []netlink.Message
	for _, name := range e.gone {
		flush = append(flush, t.message(unix.NFT_MSG_DELRULE, 0, unix.NFTA_RULE_TABLE, name))
		remove = append(remove, t.message(unix.NFT_MSG_DELCHAIN, 0, unix.NFTA_CHAIN_TABLE, name))
	}
	for _, s := range e.goneSets {
		remove = append(remove, t.message(unix.NFT_MSG_DELSET, 0, unix.NFTA_SET_TABLE, s.name))
	}
	var out [][]netlink.Message
	for _, m := range append(flush, remove...) {
		out = append(out, []netlink.Message{m})
	}
	return out
}

// message is one about the table or, by name, about a thing in it; kinds of things agree on the number for their name but
// for chains.
func (t *table) message(kind uint16, flags netlink.HeaderFlags, inTable uint16, name string) netlink.Message {
	var a attributes
	a.string(inTable, t.name)
	if name != "" {
		a.string(choose[uint16](kind == unix.NFT_MSG_DELCHAIN, unix.NFTA_CHAIN_NAME, 2), name)
	}
	return message(kind, flags, t.family, a)
}

// chainMessage makes a chain.
func (t *table) chainMessage(c chain) netlink.Message {
	var a attributes
	a.string(unix.NFTA_CHAIN_TABLE, t.name)
	a.string(unix.NFTA_CHAIN_NAME, c.name)
	if h := c.hook; h != nil {
		a.nest(unix.NFTA_CHAIN_HOOK, func() {
			a.uint32(unix.NFTA_HOOK_HOOKNUM, hookNumbers()[h.at])
			a.uint32(unix.NFTA_HOOK_PRIORITY, uint32(h.priority))
		})
		a.uint32(unix.NFTA_CHAIN_POLICY, accept)
		a.string(unix.NFTA_CHAIN_TYPE, h.kind)
	}
	return message(unix.NFT_MSG_NEWCHAIN, netlink.Create, t.family, a)
}

// body gives a chain its rules, in place of those that it has.
func (t *table) body(c chain) []netlink.Message {
	out := []netlink.Message{t.message(unix.NFT_MSG_DELRULE, 0, unix.NFTA_RULE_TABLE, c.name)}
	for _, r := range c.rules {
		p := program{family: t.family, ids: &t.ids}
		for _, s := range r {
			p.statement(s)
		}
		for _, s := range p.anonymous {
			out = append(out, t.declareAnonymous(t.name, s))
			out = append(out, t.elements(unix.NFT_MSG_NEWSETELEM, t.name, &s.set, s.id, s.filled)...)
		}
		var a attributes
		a.string(unix.NFTA_RULE_TABLE, t.name)
		a.string(unix.NFTA_RULE_CHAIN, c.name)
		a.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
			for _, e := range p.expressions {
				text, err := expr.Marshal(t.number(), e)
				if err != nil {
					panic(fmt.Sprintf("rule %q: %v", r.text(t.family), err)) // ours are all sound
				}
				a.bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, text)
			}
		})
		out = append(out, message(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, t.family, a))
	}
	return out
}
