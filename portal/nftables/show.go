package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

// Show implements portal.Writer: the rules that look portals up, as nft lists them, and their elements. The kernel is
// asked for these alone, whatever else the table has.
func (w *Writer) Show(ctx context.Context, portals []portal.Portal) (shown portal.Shown, err error) {
	conn, err := nfnl.Dial() // the Writer's is in use
	if err != nil {
		return shown, err
	}
	valid, invalid := writer.Valid(portals, w.Check)
	errs := []error{invalid}
	for _, served := range w.tables {
		r, err := w.opts.rules(served.family)
		if err != nil {
			return shown, err
		}
		r.adopt(w.Settings(), w.ranges.all())
		s, changes := build(r, valid, nil)
		if len(s.portals) == 0 {
			continue
		}
		v := view{table: &table{rules: r, conn: conn, name: w.opts.Table, state: s}, run: w.opts.Run, to: &shown}
		errs = append(errs, v.show(ctx, changes))
	}
	return shown, errors.Join(append(errs, conn.Close())...)
}

// view is the look at one table.
type view struct {
	*table
	run func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error)
	to  *portal.Shown

	words  map[string]bool // the sets that portals are in, as rules have them
	chains map[string]bool // those that look portals up, or lead there
}

func (v *view) lack(format string, args ...any) {
	v.to.Missing = append(v.to.Missing, fmt.Sprintf("table %s %s: ", v.word, v.name)+fmt.Sprintf(format, args...))
}

func (v *view) show(ctx context.Context, wanted *changeset) error {
	exists, dormant, err := v.exists()
	switch {
	case err != nil:
		return err
	case !exists:
		v.lack("it is missing")
		return nil
	case dormant:
		v.lack("it is dormant, and the kernel passes it over")
	}
	held, err := v.heldChains(wanted.writeChains)
	if err != nil {
		return err
	}
	v.follow(wanted)
	lines, err := v.listText(ctx, held)
	if err != nil {
		return err
	}
	for _, c := range wanted.writeChains {
		v.showChain(c, held[c.name], lines[c.name])
	}
	for _, e := range wanted.add {
		if err := v.showElement(e); err != nil {
			return err
		}
	}
	return nil
}

// heldChains lists those of these chains that the kernel has, with their rules.
func (v *view) heldChains(wanted []chain) (map[string]*listedChain, error) {
	held := map[string]*listedChain{}
	err := v.conn.List(nfnl.Request(nfnl.NFT_MSG_GETCHAIN, nfnl.Dump, v.number, nil), func(list []byte) error {
		table, name, c, err := parseChain(list)
		isWanted := func(c chain) bool { return c.name == name }
		if table == v.name && slices.ContainsFunc(wanted, isWanted) {
			held[name] = c
		}
		return err
	})
	for name := range held {
		if err == nil {
			err = v.listRules(name, held)
		}
	}
	return held, err
}

// showChain adds the rules of a chain that lead to the portals, or look them up. Chains of classes have the rules of
// other portals too.
func (v *view) showChain(wanted chain, held *listedChain, lines []string) {
	shared := strings.HasPrefix(wanted.name, endpointsPrefix)
	switch {
	case held == nil:
		v.lack("chain %s is missing", wanted.name)
	case wanted.hook != nil && (held.hook == nil || *held.hook != *wanted.hook):
		v.lack("chain %s is not where packets enter at %s", wanted.name, wanted.hook.at)
	case !held.accepts:
		v.lack("the policy of chain %s is not accept", wanted.name)
	case !shared && len(held.rules) != len(wanted.rules):
		v.lack("chain %s has %d rules in place of %d", wanted.name, len(held.rules), len(wanted.rules))
	}
	for _, line := range lines {
		if v.ofPortals(wanted.name) || v.mentions(line) {
			v.to.Add(fmt.Sprintf("%s table %s, chain %s", v.word, v.name, wanted.name), line)
		}
	}
}

// ofPortals tells whether a chain is of the portals alone.
func (v *view) ofPortals(chain string) bool {
	for id := range v.state.shared.Counts() {
		if id, ok := id.(chainID); ok && id.name() == chain {
			return true
		}
	}
	return false
}

// follow finds the chains that look the portals up, and those that lead to these.
func (v *view) follow(wanted *changeset) {
	v.words, v.chains = map[string]bool{}, map[string]bool{}
	for _, e := range wanted.add {
		if e.set.name != v.hairpins.name && e.set.name != v.sets.clusterIPs.name {
			v.words["@"+e.set.name] = true
		}
	}
	for more := true; more; {
		more = false
		for _, c := range wanted.writeChains {
			mentions := func(r rule) bool { return v.mentions(r.text(v.family)) }
			if !v.chains[c.name] && (v.ofPortals(c.name) || slices.ContainsFunc(c.rules, mentions)) {
				v.chains[c.name], more = true, true
			}
		}
	}
}

// mentions tells whether a rule looks up a set of the portals, or leads to a chain that does.
func (v *view) mentions(line string) bool {
	words := strings.Fields(line)
	for i, word := range words {
		leads := i > 0 && (words[i-1] == "jump" || words[i-1] == "goto")
		if v.words[word] || leads && v.chains[word] {
			return true
		}
	}
	return false
}

// listText returns the rules of the chains that look the portals up, or lead there, as nft lists them: with one call
// each, since of several chains nft finds the last.
func (v *view) listText(ctx context.Context, held map[string]*listedChain) (map[string][]string, error) {
	out := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if !v.chains[name] {
			continue
		}
		text, err := v.run(ctx, "nft", []string{"list", "chain", v.word, v.name, name}, nil)
		if err != nil {
			return out, err
		}
		for line := range strings.Lines(string(text)) {
			rule, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t\t")
			if ok && !strings.HasPrefix(rule, "type ") {
				out[name] = append(out[name], rule)
			}
		}
	}
	return out, nil
}

// showElement adds what the kernel has at the place of an element.
func (v *view) showElement(wanted setElement) error {
	held, there, err := v.getElement(wanted)
	is := wanted.set.elementText(held.element, held.value)
	want := wanted.set.elementText(wanted.element, wanted.value)
	switch {
	case err != nil:
		return err
	case !there:
		v.lack("set %s lacks %s", wanted.set.name, want)
	case held.value != wanted.value:
		v.lack("set %s has %s in place of %s", wanted.set.name, is, want)
		fallthrough
	default:
		v.to.Add(fmt.Sprintf("%s table %s, set %s", v.word, v.name, wanted.set.name), is)
	}
	return nil
}

// getElement looks an element up by its key.
func (v *view) getElement(e setElement) (held setElement, there bool, err error) {
	request := v.elements(nfnl.NFT_MSG_GETSETELEM, e.set, e.set.name, 0, []setElement{e})[0]
	err = v.eachElement(request, e.set, func(found setElement) { held, there = found, true })
	if errors.Is(err, syscall.ENOENT) {
		return held, false, nil
	}
	return held, there, err
}
