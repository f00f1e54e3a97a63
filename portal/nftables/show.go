package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
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
		r, err := w.opts.rules(served.rules.Family)
		if err != nil {
			return shown, err
		}
		r.Configure(w.Settings(), w.ranges.all())
		s, changes := build(r, valid, nil)
		if len(s.portals) == 0 {
			continue
		}
		v := view{kernel: &kernelTable{conn, nft.NewTable(r.Family, w.opts.Table)}, state: s, run: w.opts.Run, to: &shown}
		errs = append(errs, v.show(ctx, changes))
	}
	return shown, errors.Join(append(errs, conn.Close())...)
}

// view is the look at one table.
type view struct {
	kernel *kernelTable
	state  *state // as the portals need it
	run    func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error)
	to     *portal.Shown

	words  map[string]bool // the sets that portals are in, as rules have them
	chains map[string]bool // those that look portals up, or lead there
}

func (v *view) family() nft.Family { return v.kernel.wire.Family }

func (v *view) lack(format string, args ...any) {
	table := fmt.Sprintf("table %s %s: ", v.family().Word, v.kernel.wire.Name)
	v.to.Missing = append(v.to.Missing, table+fmt.Sprintf(format, args...))
}

func (v *view) show(ctx context.Context, wanted *changeset) error {
	exists, dormant, err := v.kernel.exists()
	switch {
	case err != nil:
		return err
	case !exists:
		v.lack("it is missing")
		return nil
	case dormant:
		v.lack("it is dormant, and the kernel passes it over")
	}
	installed, err := v.kernel.installedChains(wanted.writeChains)
	if err != nil {
		return err
	}
	v.follow(wanted)
	var errs []error
	for _, c := range wanted.writeChains {
		is := installed[c.Name]
		var lines []string
		if is != nil && v.chains[c.Name] {
			if lines, err = v.listText(ctx, c.Name); err != nil {
				lines, errs = v.recognized(c, is), append(errs, err)
			}
		}
		v.showChain(c, is, lines)
	}
	for _, e := range wanted.add {
		if err := v.showElement(e); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// showChain adds the rules of a chain that lead to the portals, or look them up. Chains of classes have the rules of
// other portals too.
func (v *view) showChain(wanted nft.Chain, installed *nft.ListedChain, lines []string) {
	shared := strings.HasPrefix(wanted.Name, layout.EndpointsPrefix)
	switch {
	case installed == nil:
		v.lack("chain %s is missing", wanted.Name)
	case wanted.Hook != nil && (installed.Hook == nil || *installed.Hook != *wanted.Hook):
		v.lack("chain %s is not where packets enter at %s", wanted.Name, wanted.Hook.At)
	case !installed.Accepts:
		v.lack("the policy of chain %s is not accept", wanted.Name)
	case !shared && len(installed.Rules) != len(wanted.Rules):
		v.lack("chain %s has %d rules in place of %d", wanted.Name, len(installed.Rules), len(wanted.Rules))
	}
	for _, line := range lines {
		if v.ofPortals(wanted.Name) || v.mentions(line) {
			v.to.Add(fmt.Sprintf("%s table %s, chain %s", v.family().Word, v.kernel.wire.Name, wanted.Name), line)
		}
	}
}

// ofPortals tells whether a chain is of the portals alone.
func (v *view) ofPortals(chain string) bool {
	for id := range v.state.shared.Counts() {
		if id, ok := id.(layout.ChainID); ok && id.Name() == chain {
			return true
		}
	}
	return false
}

// follow finds the chains that look the portals up, and those that lead to these.
func (v *view) follow(wanted *changeset) {
	v.words, v.chains = map[string]bool{}, map[string]bool{}
	for _, e := range wanted.add {
		if e.Set.Name != v.state.rules.Sets.Hairpins.Name && e.Set.Name != v.state.rules.Sets.ClusterIPs.Name {
			v.words["@"+e.Set.Name] = true
		}
	}
	for more := true; more; {
		more = false
		for _, c := range wanted.writeChains {
			mentions := func(r nft.Rule) bool { return v.mentions(r.Text(v.family())) }
			if !v.chains[c.Name] && (v.ofPortals(c.Name) || slices.ContainsFunc(c.Rules, mentions)) {
				v.chains[c.Name], more = true, true
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

// listText returns the rules of a chain as nft lists them. Of several chains in one call nft finds the last.
func (v *view) listText(ctx context.Context, chain string) (out []string, err error) {
	text, err := v.run(ctx, "nft", []string{"list", "chain", v.family().Word, v.kernel.wire.Name, chain}, nil)
	for line := range strings.Lines(string(text)) {
		rule, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t\t")
		if ok && !strings.HasPrefix(rule, "type ") {
			out = append(out, rule)
		}
	}
	return out, err
}

// recognized returns those of a chain's rules in the kernel that have the digest of a wanted one, as portald prints
// them. It is for where nft fails, as one does that is older than whatever wrote some table.
func (v *view) recognized(wanted nft.Chain, installed *nft.ListedChain) (out []string) {
	known := map[nft.Digest]string{}
	for _, r := range wanted.Rules {
		known[v.kernel.wire.Digest(r)] = r.Text(v.family())
	}
	for _, r := range installed.Rules {
		if text, ok := known[r.Digest]; ok {
			out = append(out, text)
		}
	}
	return out
}

// showElement adds what the kernel has at the place of an element.
func (v *view) showElement(wanted nft.SetElement) error {
	element, there, err := v.kernel.getElement(wanted)
	is := wanted.Set.ElementText(element.Element, element.Value)
	want := wanted.Set.ElementText(wanted.Element, wanted.Value)
	switch {
	case err != nil:
		return err
	case !there:
		v.lack("set %s lacks %s", wanted.Set.Name, want)
	case element.Value != wanted.Value:
		v.lack("set %s has %s in place of %s", wanted.Set.Name, is, want)
		fallthrough
	default:
		v.to.Add(fmt.Sprintf("%s table %s, set %s", v.family().Word, v.kernel.wire.Name, wanted.Set.Name), is)
	}
	return nil
}
