package nftables

import (
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// steps are the messages of an edit, in groups that have to take effect at once, all but parting.
func (t *table) steps(e *edit) [][]netlink.Message {
	return slices.Concat(t.making(e), t.leading(e))
}

// making is the steps that make what nothing leads to yet.
func (t *table) making(e *edit) [][]netlink.Message {
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
	return out
}

// leading is the steps that lead there, and take away what has no use then.
func (t *table) leading(e *edit) [][]netlink.Message {
	var out [][]netlink.Message
	step := func(messages ...netlink.Message) { out = append(out, messages) }
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
	out = append(out, t.dropping(e.drops)...)
	for _, c := range e.late {
		step(t.body(c)...)
	}
	return append(out, t.removal(e)...)
}

// parting is the steps that take away what packets ask for after they were led.
func (t *table) parting(e *edit) [][]netlink.Message { return t.dropping(e.parting) }

func (t *table) dropping(all []filled) (out [][]netlink.Message) {
	for s, some := range bySet(all) {
		for _, m := range t.elements(unix.NFT_MSG_DELSETELEM, t.name, s, 0, some) {
			out = append(out, []netlink.Message{m})
		}
	}
	return out
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
