package iptables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal"
)

// host is one family of the host's rules.
type host struct {
	family
	commands
	nat, filter, mangle *table
	log                 func(format string, args ...any)

	diverts atomic.Bool // the mangle table is as it should be, and marks
	told    bool        // that it is not
	cleared bool        // an earlier run's are gone from it
}

// probeTime bounds the look for commands. Loading kernel modules may take a second or two.
const probeTime = 10 * time.Second

func newHost(f family, names chains, o Options) (*host, error) {
	address, err := o.proxyAddress(f)
	if err != nil {
		return nil, err
	}
	r := renderer{
		chains: names, family: f, first: o.ProxyPorts[0], last: o.ProxyPorts[1], address: address,
	}
	h := &host{family: f, log: o.Log}
	h.nat, h.filter, h.mangle = newTable(natTable, r), newTable(filterTable, r), newTable(mangleTable, r)
	h.commands = commands{
		restore: f.commandName(o.Variant, "restore"),
		save:    f.commandName(o.Variant, "save"),
		run:     o.Run,
	}
	return h, nil
}

// nodeAddresses are those of the family that are not loopback, masked and in order.
func nodeAddresses(f family, prefixes []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		p = p.Masked()
		inLoopback := p.Overlaps(f.loopback) && p.Bits() >= f.loopback.Bits()
		if f.owns(p.Addr()) && !inLoopback {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// probe finds out whether the host's kernel can serve the family.
func (h *host) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	for _, t := range []*table{h.nat, h.filter} {
		if _, err := h.dump(ctx, t.name); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s portals: %w", verb, h.name, err)
}

// replace puts up what is new before it takes down what is old. A frontend that goes from nat to filter is refused
// there before its redirect goes; one that comes back, be it for some clients, is redirected before its refusal goes or
// changes, which costs a second script and only then.
func (h *host) replace(ctx context.Context, portals []portal.Portal) error {
	before := h.filter.tree.portals()
	h.nat.tree, h.filter.tree = newTree(), newTree()
	h.put(portals)
	led := slices.DeleteFunc(before, func(p portal.Portal) bool { return !h.nat.tree.has(p.Frontend) })
	for _, p := range led {
		h.filter.tree.put(p)
	}
	for _, t := range []*table{h.filter, h.nat} {
		held, err := h.dump(ctx, t.name)
		if err != nil {
			return err
		}
		if err := h.apply(ctx, t.sync(t.parseSaved(held))); err != nil {
			return err
		}
	}
	for _, p := range led {
		now, _ := h.nat.tree.get(p.Frontend)
		h.settle(now)
	}
	if err := h.apply(ctx, h.filter.update()); err != nil {
		return err
	}
	h.replaceDivert(ctx)
	return nil
}

func (h *host) put(portals []portal.Portal) {
	for _, p := range portals {
		if !h.owns(p.Frontend.Addr.Addr()) {
			continue
		}
		if leads(p) {
			h.nat.tree.put(p)
		}
		if refuses(p) {
			h.filter.tree.put(p)
		}
	}
}

// settle has the filter refuse whom a portal in nat does not lead, and nobody else.
func (h *host) settle(p portal.Portal) {
	if refuses(p) {
		h.filter.tree.put(p)
	} else {
		h.filter.tree.remove(p.Frontend)
	}
}

// update goes in the order of replace: new refusals, then redirects that come or go, then refusals that go or change.
func (h *host) update(ctx context.Context, changes []portal.Change) error {
	ours := slices.DeleteFunc(slices.Clone(changes), func(c portal.Change) bool { return !h.owns(c.Frontend.Addr.Addr()) })
	var refused, led, gone []portal.Change
	for _, c := range ours {
		switch {
		case c.Portal == nil:
			gone = append(gone, c)
		case leads(*c.Portal):
			led = append(led, c)
		default:
			refused = append(refused, c)
		}
	}
	h.filter.put(refused)
	for _, c := range led {
		if !h.filter.tree.has(c.Frontend) {
			h.settle(*c.Portal)
		}
	}
	if err := h.apply(ctx, h.filter.update()); err != nil {
		return err
	}
	h.nat.put(led)
	h.nat.remove(refused)
	h.nat.remove(gone)
	if err := h.apply(ctx, h.nat.update()); err != nil {
		return err
	}
	for _, c := range led {
		h.settle(*c.Portal)
	}
	h.filter.remove(gone)
	return h.apply(ctx, h.filter.update())
}

// cleanup takes the redirects first, while the guard still stands. It goes on after an error.
func (h *host) cleanup(ctx context.Context) error {
	var errs []error
	for _, t := range []*table{h.nat, h.filter} {
		t.tree, t.written = newTree(), nil
		held, err := h.dump(ctx, t.name)
		if err == nil {
			err = h.apply(ctx, removal(t.name, t.parseSaved(held)))
		}
		errs = append(errs, err)
	}
	h.diverts.Store(false)
	h.cleared = false
	return errors.Join(append(errs, h.clearDivert(ctx))...)
}

func (h *host) audit(ctx context.Context) error {
	var errs []error
	for _, t := range h.written() {
		held, err := h.dump(ctx, t.name)
		if err == nil {
			err = t.compare(t.parseSaved(held))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// written are the tables that hold rules of ours.
func (h *host) written() []*table {
	if h.diverts.Load() {
		return []*table{h.nat, h.filter, h.mangle}
	}
	return []*table{h.nat, h.filter}
}
