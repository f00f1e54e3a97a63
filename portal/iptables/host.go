package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// host is the rules of one address family.
type host struct {
	family
	commands
	nat, filter, mangle *table
	log                 func(format string, args ...any)
	ruleCount, wrote    func(family inet.Family, table string, rules int)

	diverts     atomic.Bool // mangle is written, and marks replies
	forwards    atomic.Bool // filter has the rules for flows of portals that spread
	mangleInUse bool        // it is written, and holds rules of ours
	reported    bool        // that mangle could not be written
	whole       time.Time   // when all rules were last known to be as written
	refusals    *refusals
	lists       lister // nil: chains are not listed
}

// probeTime bounds the look for commands. They may have to load kernel modules, and to wait for the lock, which others
// hold for a while when they write many rules.
const probeTime = 2 * time.Minute

// silentTime is how long it waits without a word.
const silentTime = 2 * time.Second

func newHost(f family, names chains, o Options) (*host, error) {
	address, err := o.ProxyAddress(f.ip)
	if err != nil {
		return nil, err
	}
	r := renderer{
		chains: names, family: f, proxyRange: o.ProxyPorts, address: address,
		masquerade: o.Masquerade, dials: o.Dials, liberal: o.Liberal,
	}
	h := &host{family: f, log: o.Log, ruleCount: o.RuleCount, wrote: o.Wrote, refusals: newRefusals(o)}
	h.nat, h.filter, h.mangle = newTable(natTable, r), newTable(filterTable, r), newTable(mangleTable, r)
	if err := h.extend(o.Extra); err != nil {
		return nil, err
	}
	h.commands = commands{
		command: f.commandName(o.Variant, ""),
		restore: f.commandName(o.Variant, "restore"),
		save:    f.commandName(o.Variant, "save"),
		run:     o.Run,
	}
	return h, nil
}

// extend adds the chains of other Writers to the tables.
func (h *host) extend(extras []writer.Chain) error {
	for _, x := range extras {
		if err := h.nat.checkExtra(x); err != nil {
			return err
		}
		for _, t := range h.tables() {
			if x.Table == t.name && x.Family == h.ip {
				t.extras = append(t.extras, x)
			}
		}
	}
	return nil
}

func (h *host) tables() []*table { return []*table{h.nat, h.filter, h.mangle} }

// probe returns an error if the kernel cannot serve the family, ErrBusy if that is not known.
func (h *host) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	defer time.AfterFunc(silentTime, func() {
		h.log("waiting for %s: another program may hold its lock (fuser -v /run/xtables.lock names it)", h.commands.command)
	}).Stop()
	for {
		switch err := h.probeOnce(ctx); {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: another program may hold the lock of iptables (fuser -v /run/xtables.lock names it): %w",
				writer.ErrBusy, err)
		case err == nil || !strings.Contains(err.Error(), lockedError):
			return err
		}
	}
}

// probeOnce is one try of probe.
func (h *host) probeOnce(ctx context.Context) error {
	if err := h.probeVersion(ctx); err != nil {
		return err
	}
	for _, t := range []*table{h.nat, h.filter} {
		if _, err := h.list(ctx, t.name, "OUTPUT"); err != nil {
			return err
		}
	}
	if h.nat.plain = h.commands.plain; h.nat.plain && h.ip == inet.IPv4 {
		h.log("%s is older than 1.6.2: masqueraded flows that begin at the same time may get one port and fail",
			h.commands.command)
	}
	return nil
}

// guard takes in which of the family's proxy ports are open.
func (h *host) guard(changes map[portal.ProxyPort]bool) {
	for p, open := range changes {
		if p.Family == h.ip {
			h.filter.guarded.set(p.Protocol, p.Port, open)
		}
	}
}

// replace writes new rules before it removes old ones. A frontend that moves from nat to filter is refused there
// before its rules in nat are removed. One that moves back, for some clients or all, is in nat before its rules in
// filter are removed or change, which takes a second script only then.
func (h *host) replace(ctx context.Context, portals []portal.Portal) error {
	before := h.filter.tree.portals()
	h.nat.empty()
	h.filter.empty()
	h.put(portals)
	led := slices.DeleteFunc(before, func(p portal.Portal) bool { return !h.nat.tree.has(p.Frontend) })
	for _, p := range led {
		h.filter.put(p)
	}
	h.spread(h.nat, h.filter)
	installed, err := h.read(ctx)
	if err != nil {
		return err
	}
	h.keepSpreading(installed)
	h.countQuietly(ctx, h.refusals.of(nil))
	filter := h.filter.sync(installed[h.filter])
	if err := h.applyFilter(ctx, filter); err != nil {
		return err
	}
	h.followAll(ctx, filter.leaves)
	if err := h.apply(ctx, h.nat.sync(installed[h.nat])); err != nil {
		return err
	}
	for _, p := range led {
		now, _ := h.nat.tree.get(p.Frontend)
		h.updateFilter(now)
	}
	if err := h.applyFilter(ctx, h.filter.update()); err != nil {
		return err
	}
	h.mangle.spreading = h.nat.spreading
	h.replaceMangle(ctx, installed[h.mangle])
	h.whole = time.Now()
	return nil
}

// read returns what the host holds.
func (h *host) read(ctx context.Context) (map[*table]saved, error) {
	dump, err := h.dump(ctx)
	if err != nil {
		return nil, err
	}
	installed := map[*table]saved{}
	for _, t := range h.tables() {
		installed[t] = t.parseSaved(section(dump, t.name))
	}
	return installed, nil
}

// spread notes in tables whether any portal spreads.
func (h *host) spread(tables ...*table) {
	for _, t := range tables {
		t.spreading = len(h.nat.owners.portals) > 0
	}
}

// keepSpreading makes the first Replace keep the rules that accept and masquerade flows of portals that spread, if an
// earlier run wrote them: its open flows live on, on hosts that drop by default too.
func (h *host) keepSpreading(installed map[*table]saved) {
	if h.nat.written != nil {
		return
	}
	if _, spread := installed[h.nat].chains[h.nat.postrouting]; spread {
		h.nat.spreading, h.filter.spreading = true, true
	}
}

func (h *host) put(portals []portal.Portal) {
	for _, p := range portals {
		if !h.owns(p.Frontend.Addr.Addr()) {
			continue
		}
		if h.nat.inNAT(p) {
			h.nat.put(p)
		}
		if h.nat.inFilter(p) {
			h.filter.put(p)
		}
	}
}

// updateFilter makes filter refuse the clients of a portal that nat does not translate, and no others.
func (h *host) updateFilter(p portal.Portal) {
	if h.nat.inFilter(p) {
		h.filter.put(p)
	} else {
		h.filter.remove(p.Frontend)
	}
}

// update works in the order of replace: it adds refusals, then changes nat in one step, then removes or changes
// refusals. The rules that accept flows of portals that spread are written first. They stay until the next Replace
// without such portals, for open flows.
func (h *host) update(ctx context.Context, changes []portal.Change) error {
	refused, led, gone := h.sort(changes)
	for _, p := range refused {
		h.filter.put(p)
	}
	for _, p := range led {
		if !h.filter.tree.has(p.Frontend) {
			h.updateFilter(p)
		}
		if _, spreads := p.Target.(portal.Spread); spreads {
			h.filter.spreading, h.nat.spreading = true, true
		}
	}
	if err := h.applyFilter(ctx, h.filter.update()); err != nil {
		return err
	}
	for _, p := range led {
		h.nat.put(p)
	}
	for _, p := range refused {
		h.nat.remove(p.Frontend)
	}
	for _, f := range gone {
		h.nat.remove(f)
	}
	if err := h.apply(ctx, h.nat.update()); err != nil {
		return err
	}
	for _, p := range led {
		h.updateFilter(p)
	}
	for _, f := range gone {
		h.filter.remove(f)
	}
	if err := h.applyFilter(ctx, h.filter.update()); err != nil {
		return err
	}
	h.updateMangle(ctx)
	return nil
}

// sort divides the changes of this family by the table that their portals belong to.
func (h *host) sort(changes []portal.Change) (refused, led []portal.Portal, gone []service.Frontend) {
	for _, c := range changes {
		switch {
		case !h.owns(c.Frontend.Addr.Addr()):
		case c.Portal == nil:
			gone = append(gone, c.Frontend)
		case h.nat.inNAT(*c.Portal):
			led = append(led, *c.Portal)
		default:
			refused = append(refused, *c.Portal)
		}
	}
	return refused, led, gone
}

// cleanup removes the redirects first, while ports are still guarded. It goes on after an error.
func (h *host) cleanup(ctx context.Context) error {
	h.forget()
	installed, err := h.read(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range h.tables() {
		errs = append(errs, h.apply(ctx, removal(t.name, installed[t])))
	}
	return errors.Join(errs...)
}

// written are the tables that hold rules of ours.
func (h *host) written() []*table {
	if h.mangleInUse {
		return []*table{h.nat, h.filter, h.mangle}
	}
	return []*table{h.nat, h.filter}
}

// adopt makes Settings take effect in all tables.
func (h *host) adopt(s writer.Settings) {
	for _, t := range []*table{h.nat, h.filter, h.mangle} {
		t.allNodeAddresses = len(s.NodePortAddresses) == 0
		t.nodeAddresses = s.NodeAddresses(h.ip)
		t.mark = s.Mark
		t.pods = h.pods(s.LocalDetector)
	}
}

func (h *host) open(changes map[uint16]bool) {
	for port, open := range changes {
		h.filter.checks.set(port, open)
	}
	h.filter.checks.settle()
}

// forget is as if nothing had been written.
func (h *host) forget() {
	for _, t := range h.tables() {
		t.empty()
		t.written, t.spreading, t.sent = nil, false, 0
	}
	h.refusals.forget()
	h.mangleInUse = false
	h.diverts.Store(false)
}
