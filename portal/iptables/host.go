package iptables

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/service"
)

// host is one family of the host's rules.
type host struct {
	family
	commands
	nat, filter, mangle *table
	log                 func(format string, args ...any)
	held, wrote         func(family service.IPFamily, table string, rules int)

	diverts atomic.Bool // the mangle table is as it should be, and marks
	mangled bool        // it is, and holds something
	told    bool        // that it is not
	whole   time.Time   // when everything was last known to stand as written
}

// probeTime bounds the look for commands. Loading kernel modules may take a second or two.
const probeTime = 10 * time.Second

func newHost(f family, names chains, o Options) (*host, error) {
	address, err := o.ProxyAddress(f.ip)
	if err != nil {
		return nil, err
	}
	r := renderer{
		chains: names, family: f, first: o.ProxyPorts[0], last: o.ProxyPorts[1], address: address,
		masquerade: o.Masquerade, dials: o.Dials, liberal: o.Liberal, here: f.those(o.NodeIPs),
	}
	h := &host{family: f, log: o.Log, held: o.Held, wrote: o.Wrote}
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

// extend gives the tables what another room has in them.
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

// probe finds out whether the host's kernel can serve the family.
func (h *host) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	if err := h.learn(ctx); err != nil {
		return err
	}
	for _, t := range []*table{h.nat, h.filter} {
		if _, err := h.list(ctx, t.name, "OUTPUT"); err != nil {
			return err
		}
	}
	if h.nat.plain = h.commands.plain; h.nat.plain && h.ip == service.IPv4 {
		h.log("%s is older than 1.6.2: of masqueraded flows that begin at once, some may get the same port and fail", h.commands.command)
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

// replace puts up what is new before it takes down what is old. A frontend that goes from nat to filter is refused
// there before its redirect goes; one that comes back, be it for some clients, is redirected before its refusal goes or
// changes, which costs a second script and only then.
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
	dump, err := h.dump(ctx)
	if err != nil {
		return err
	}
	held := map[*table]saved{}
	for _, t := range h.tables() {
		held[t] = t.parseSaved(section(dump, t.name))
	}
	h.inherit(held)
	for _, t := range []*table{h.filter, h.nat} {
		if err := h.apply(ctx, t.sync(held[t])); err != nil {
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
	h.mangle.spreading = h.nat.spreading
	h.replaceMangle(ctx, held[h.mangle])
	h.whole = time.Now()
	return nil
}

// spread tells tables whether any portal spreads.
func (h *host) spread(tables ...*table) {
	for _, t := range tables {
		t.spreading = len(h.nat.owners.portals) > 0
	}
}

// inherit has the first Replace keep what a former run let spread flows through by, on hosts that deny them by default: open
// ones live on, and a packet that was marked a moment ago is yet to be masqueraded.
func (h *host) inherit(held map[*table]saved) {
	if h.nat.written != nil {
		return
	}
	if _, spread := held[h.nat].chains[h.nat.postrouting]; spread {
		h.nat.spreading, h.filter.spreading = true, true
	}
}

func (h *host) put(portals []portal.Portal) {
	for _, p := range portals {
		if !h.owns(p.Frontend.Addr.Addr()) {
			continue
		}
		if h.nat.leads(p) {
			h.nat.put(p)
		}
		if h.nat.refuses(p) {
			h.filter.put(p)
		}
	}
}

// settle has the filter refuse whom a portal in nat does not lead, and nobody else.
func (h *host) settle(p portal.Portal) {
	if h.nat.refuses(p) {
		h.filter.put(p)
	} else {
		h.filter.remove(p.Frontend)
	}
}

// update goes in the order of replace: new refusals, then what leads somewhere comes, changes or goes in one step, then
// refusals go or change. What lets spread portals through comes first; and it stays, until the next Replace without any,
// for flows that were led before.
func (h *host) update(ctx context.Context, changes []portal.Change) error {
	refused, led, gone := h.sort(changes)
	for _, p := range refused {
		h.filter.put(p)
	}
	for _, p := range led {
		if !h.filter.tree.has(p.Frontend) {
			h.settle(p)
		}
		if _, spreads := p.Target.(portal.Spread); spreads {
			h.filter.spreading, h.nat.spreading = true, true
		}
	}
	if err := h.apply(ctx, h.filter.update()); err != nil {
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
		h.settle(p)
	}
	for _, f := range gone {
		h.filter.remove(f)
	}
	if err := h.apply(ctx, h.filter.update()); err != nil {
		return err
	}
	h.updateMangle(ctx)
	return nil
}

// sort tells changes of this family apart by where portals are to be.
func (h *host) sort(changes []portal.Change) (refused, led []portal.Portal, gone []service.Frontend) {
	for _, c := range changes {
		switch {
		case !h.owns(c.Frontend.Addr.Addr()):
		case c.Portal == nil:
			gone = append(gone, c.Frontend)
		case h.nat.leads(*c.Portal):
			led = append(led, *c.Portal)
		default:
			refused = append(refused, *c.Portal)
		}
	}
	return refused, led, gone
}

// cleanup takes the redirects first, while the guard still stands. It goes on after an error.
func (h *host) cleanup(ctx context.Context) error {
	var errs []error
	h.diverts.Store(false)
	h.mangled = false
	held, err := h.dump(ctx)
	if err != nil {
		return err
	}
	for _, t := range h.tables() {
		t.empty()
		t.written, t.spreading = nil, false
		errs = append(errs, h.apply(ctx, removal(t.name, t.parseSaved(section(held, t.name)))))
	}
	return errors.Join(errs...)
}

// written are the tables that hold rules of ours.
func (h *host) written() []*table {
	if h.mangled {
		return []*table{h.nat, h.filter, h.mangle}
	}
	return []*table{h.nat, h.filter}
}

// adopt has what is live take effect in all tables.
func (h *host) adopt(s writer.Settings) {
	for _, t := range []*table{h.nat, h.filter, h.mangle} {
		t.allNodeAddresses = len(s.NodePortAddresses) == 0
		t.nodeAddresses = s.NodeAddresses(h.ip)
		t.mark = s.Mark
		t.pods = h.pods(s.LocalDetector)
	}
}
