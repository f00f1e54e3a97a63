package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

// Show implements portal.Writer: the rules that a packet to a frontend may meet, from the built-in chains on, as
// iptables-save prints them.
func (w *Writer) Show(ctx context.Context, portals []portal.Portal) (shown portal.Shown, err error) {
	valid, invalid := writer.Valid(portals, w.Check)
	errs := []error{invalid}
	for _, h := range w.hosts {
		mine := slices.DeleteFunc(slices.Clone(valid), func(p portal.Portal) bool { return !h.owns(p.Frontend.Addr.Addr()) })
		if len(mine) == 0 {
			continue
		}
		errs = append(errs, w.show(ctx, h, mine, &shown))
	}
	return shown, errors.Join(errs...)
}

// show adds the rules of portals in one family.
func (w *Writer) show(ctx context.Context, h *host, portals []portal.Portal, to *portal.Shown) error {
	wanted, err := newHost(h.family, h.nat.chains, w.opts)
	if err != nil {
		return err
	}
	wanted.adopt(w.Settings())
	wanted.put(portals)
	wanted.spread(wanted.tables()...)
	for _, t := range []*table{wanted.nat, wanted.filter} {
		t.sync(saved{})
		text, err := h.some(ctx, t, t.relevant(portals))
		if err != nil {
			return fmt.Errorf("read table %s of %s: %w", t.name, h.ip, err)
		}
		installed := &netfilter.Ruleset{Tables: netfilter.ParseSaved(
			"*"+t.name+"\n"+text+"COMMIT\n", netfilter.IPTables, familyWord(h.ip))}
		for _, p := range portals {
			t.show(installed, p, to)
		}
		if t == wanted.filter {
			showGuards(wanted, installed, portals, to)
		}
		t.missing(t.parseSaved([]byte(text)), to)
	}
	return nil
}

// relevant are the chains that packets to portals may pass in a table, the built-in ones first.
func (t *table) relevant(portals []portal.Portal) []string {
	all := []string{"PREROUTING", "OUTPUT"}
	if t.name == filterTable {
		all = []string{"INPUT", "FORWARD", "OUTPUT", t.guard, t.accept, t.proxyPorts, t.listener}
		for _, p := range portals {
			if to, ok := p.Target.(portal.Redirect); ok {
				all = append(all, t.portLeaf(p.Frontend.Protocol, int(to.Port)/leafPorts*leafPorts))
			}
		}
	}
	once := map[string]bool{}
	all = append(all, slices.Sorted(maps.Keys(t.written))...)
	return slices.DeleteFunc(all, func(name string) bool {
		known := once[name]
		once[name] = true
		return known
	})
}

// manyChains is the number above which the whole of the tables is printed: one call of iptables lists a chain in some
// milliseconds, and tables of 10,000 Services in ten seconds.
const manyChains = 50

// some returns the rules of chains of a table, as iptables-save prints them. Chains that the host does not have are
// left out.
func (h *host) some(ctx context.Context, t *table, chains []string) (string, error) {
	if len(chains) > manyChains {
		dump, err := h.dump(ctx)
		return string(section(dump, t.name)) + "\n", err
	}
	var out strings.Builder
	for _, chain := range chains {
		text, err := h.list(ctx, t.name, chain)
		switch {
		case err != nil && ctx.Err() == nil && t.own(chain):
			continue // versions say in several ways that it is not there
		case err != nil:
			return out.String(), err
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "-N "); ok {
				line = ":" + strings.TrimSuffix(rest, "\n") + " - [0:0]\n"
			} else if rest, ok := strings.CutPrefix(line, "-P "); ok {
				line = ":" + strings.TrimSuffix(rest, "\n") + " [0:0]\n"
			}
			out.WriteString(line)
		}
	}
	return out.String(), nil
}

func familyWord(ip inet.Family) string {
	if ip == inet.IPv6 {
		return "ip6"
	}
	return "ip"
}

// show adds the rules that packets to a frontend may meet in a table, whoever sends them.
func (t *table) show(installed *netfilter.Ruleset, p portal.Portal, to *portal.Shown) {
	if !t.tree.has(p.Frontend) {
		return
	}
	hooks := []netfilter.Hook{netfilter.Prerouting, netfilter.Output}
	if t.name == filterTable {
		hooks = []netfilter.Hook{netfilter.Input, netfilter.Forward, netfilter.Output}
	}
	for _, hook := range hooks {
		packet := netfilter.Packet{
			Hook: hook, Behind: t.name == filterTable, Protocol: p.Frontend.Protocol, Destination: p.Frontend.Addr,
		}
		if leaf := t.leaf(shardOf(p.Frontend)); !t.addTrail(installed, packet, to)[leaf] {
			to.Missing = append(to.Missing, fmt.Sprintf("%s -t %s: no rules lead from %s to chain %s", t.command, t.name,
				strings.ToUpper(string(hook)), leaf))
		}
	}
}

// showGuards adds the rules that let redirected packets pass to the listener.
func showGuards(h *host, installed *netfilter.Ruleset, portals []portal.Portal, to *portal.Shown) {
	for _, p := range portals {
		if redirect, ok := p.Target.(portal.Redirect); ok {
			h.filter.addTrail(installed, netfilter.Packet{
				Hook: netfilter.Input, Translated: true, Protocol: p.Frontend.Protocol,
				Destination: netip.AddrPortFrom(h.ip.Unspecified(), redirect.Port),
			}, to)
		}
	}
}

// addTrail adds the rules of this table that a packet may meet, and returns the chains that they are in.
func (t *table) addTrail(installed *netfilter.Ruleset, p netfilter.Packet, to *portal.Shown) (passed map[string]bool) {
	own := func(in *netfilter.Table, chain string) bool { return in.Name == t.name && t.own(chain) }
	passed = map[string]bool{}
	steps := installed.Trail(p, own)
	for i, step := range slices.Backward(steps) {
		if t.leadsNowhere(step.Rule, passed) {
			steps = slices.Delete(steps, i, i+1)
		} else {
			passed[step.Chain.Name] = true
		}
	}
	for _, step := range steps {
		to.Add(t.command+" -t "+t.name, step.Rule.Text)
	}
	return passed
}

// leadsNowhere tells whether a rule leads to a shard for other addresses or ports: the packet passes no rule there.
func (t *table) leadsNowhere(r *netfilter.Rule, passed map[string]bool) bool {
	return slices.ContainsFunc(r.Actions, func(a netfilter.Action) bool {
		at, ours := t.depthOf(a.Chain)
		return ours && at >= atNodes && at <= atLeaf && !passed[a.Chain]
	})
}

// missing adds the rules of the portals, and of the chains that lead there, that the host does not hold. Chains above
// the leaves depend on the portals of others too; those that lead to these are compared.
func (t *table) missing(installed saved, to *portal.Shown) {
	for name, c := range t.written {
		if c.depth < atNodes {
			continue // its rules are for everything
		}
		have := strings.Split(installed.chains[name].rules, "\n")
		for rule := range strings.Lines(c.rules) {
			if rule = strings.TrimSuffix(rule, "\n"); !slices.Contains(have, rule) {
				to.Missing = append(to.Missing, fmt.Sprintf("%s -t %s %s", t.command, t.name, rule))
			}
		}
	}
	for _, j := range t.linked {
		if j.to == t.services && !slices.Contains(installed.jumps, foreign{j.chain, j.rule()}) {
			to.Missing = append(to.Missing, fmt.Sprintf("%s -t %s %s", t.command, t.name, j.rule()))
		}
	}
	slices.Sort(to.Missing)
}
