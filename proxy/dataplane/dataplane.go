// Package dataplane keeps the host in step with the service ports that are wanted: it has the carrier of each mode
// prepare them, writes the portals that lead clients there, and then has carriers close what is no longer used. It
// knows neither how traffic is carried nor how portals are written.
//
// A sync goes through these parts, each in a file of its own:
//
//	quarantine   keeps what the host refused until it is tried again, so that one Service delays no other
//	planner      asks carriers for the portals of each change
//	claims       enters them in the table, which decides who gets a contested frontend
//	host         has the writer put the table's portals on the host, and guard ports
//	trial        finds which of several plans the writer refuses
//	flowCleaner  deletes the conntrack entries that follow old rules
package dataplane

import (
	"context"
	"errors"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Dataplane implements proxy.Dataplane. One goroutine calls it.
type Dataplane struct {
	opts       Options
	carriers   *carriers
	table      *portal.Table
	ports      map[service.PortName]*service.Port // as applied, and not yet retired
	quarantine *quarantine
	planner    *planner
	claims     *claims
	host       *host
	trial      *trial
	flows      *flowCleaner
	left       []portal.Change // portals to listeners that Close or MoveToKernel changed; of Close, as they were
}

// New returns a Dataplane without portals.
func New(opts Options) *Dataplane {
	opts = opts.withDefaults()
	d := &Dataplane{
		opts: opts, table: portal.NewTable(), ports: map[service.PortName]*service.Port{},
		carriers:   &carriers{opts.Userspace, opts.Kernel, opts.Mode},
		quarantine: newQuarantine(opts.Refused),
	}
	health := newHealthPorts()
	d.planner = &planner{
		carriers: d.carriers, check: opts.Writer.Check, ports: d.ports, health: health, quarantine: d.quarantine,
		serving: opts.Serving,
	}
	d.claims = &claims{table: d.table}
	d.flows = &flowCleaner{
		table: d.table, ports: d.ports, deleteFlows: opts.DeleteFlows, own: opts.Own, period: opts.FlowPeriod,
		warn: opts.Warn,
	}
	d.host = &host{
		writer: opts.Writer, table: d.table, carriers: d.carriers, health: health, inherits: opts.Inherits,
		adopted: opts.Adopted, rewritten: opts.Rewritten, replaced: d.flows.addAll,
	}
	d.trial = &trial{planner: d.planner, claims: d.claims, host: d.host, quarantine: d.quarantine}
	return d
}

// Due receives when a service port in quarantine is due to be tried again, by a Sync with changes or without.
func (d *Dataplane) Due() <-chan struct{} { return d.quarantine.wake }

// PortalAt returns the portal of a frontend, nil if no Service has it. Safe for concurrent use, also while a Sync runs:
// the host has it then, or is about to.
func (d *Dataplane) PortalAt(f service.Frontend) *portal.Portal { return d.table.PortalAt(f) }

// Sync applies changes: carriers prepare, then portals are programmed, then carriers close what portals no longer lead
// to, so that at no moment a portal leads to a listener that is not open. A proxy port is guarded while a listener is
// open there: from the transaction that programs its first portal until the listener has closed. Costs O(the changed
// service ports). A service port that cannot be served is quarantined, and tried again by itself; an error is one of
// the host, where nothing could be changed.
func (d *Dataplane) Sync(ctx context.Context, changes []service.Change) error {
	return d.apply(ctx, changes, false)
}

// Resync applies the whole state. Service ports in quarantine stay there until they are due.
func (d *Dataplane) Resync(ctx context.Context, ports []*service.Port) error {
	d.planner.forget()
	return d.apply(ctx, d.changesTo(ports), true)
}

func (d *Dataplane) apply(ctx context.Context, changes []service.Change, all bool) error {
	defer d.endSync()
	changes = d.quarantine.filter(changes)
	changed, err := d.trial.program(ctx, d.planner.plans(changes), all)
	if err != nil {
		return err
	}
	return d.finish(ctx, changes, changed)
}

// finish tries the service ports in quarantine that are due, has carriers close what is unused, and deletes stale
// flows.
func (d *Dataplane) finish(ctx context.Context, changes []service.Change, changed []portal.Change) error {
	tried, more, err := d.trial.retry(ctx)
	if err != nil {
		return err
	}
	for _, conflict := range d.claims.conflicts {
		d.opts.Contested(conflict)
	}
	changes = slices.DeleteFunc(append(changes, tried...), d.quarantine.keepsPortals)
	d.flows.add(newest(slices.Concat(changed, more, d.flows.spreadUDP(changes))))
	err = d.retire(ctx, changes)
	d.flows.deletePending(ctx)
	return err
}

func (d *Dataplane) endSync() {
	d.claims.conflicts = nil
	d.planner.forget()
	d.quarantine.schedule()
	d.opts.Quarantined(d.quarantine.refused)
}

// WritesNoRule tells whether a Sync of a change would write nothing: that of endpoints alone in userspace, as long as
// some are left. The Sync, which comes next then, does not plan it again. Costs O(the service port).
func (d *Dataplane) WritesNoRule(c service.Change) bool {
	if d.quarantine.ports[c.Name] != nil {
		return false
	}
	ahead, ok := d.planner.planAhead(c)
	if !ok || !d.table.Keeps(c.Name, c.Port.Created, ahead.portals) {
		return false
	}
	d.planner.remember(ahead)
	return true
}

// Audit has the writer compare the host with what was written, and changes nothing.
func (d *Dataplane) Audit(ctx context.Context) error { return d.opts.Writer.Audit(ctx) }

// Disturbed tells whether the writer has seen a sign of changes by others.
func (d *Dataplane) Disturbed() bool { return d.opts.Writer.Disturbed() }

// Unguard stops guarding the proxy ports that carriers have closed since the last sync.
func (d *Dataplane) Unguard(ctx context.Context) error { return d.host.unguard(ctx) }

// changesTo returns the changes that lead to a whole state.
func (d *Dataplane) changesTo(ports []*service.Port) []service.Change {
	changes := make([]service.Change, 0, len(ports))
	wanted := make(map[service.PortName]struct{}, len(ports))
	for _, p := range ports {
		wanted[p.Name] = struct{}{}
		changes = append(changes, service.Change{Name: p.Name, Port: p})
	}
	for name := range d.ports {
		if _, ok := wanted[name]; !ok {
			changes = append(changes, service.Change{Name: name})
		}
	}
	return changes
}

// retire has carriers close what portals no longer lead to, and forgets the service ports that are gone.
func (d *Dataplane) retire(ctx context.Context, changes []service.Change) error {
	err := d.carriers.retire(changes)
	for _, c := range changes {
		if c.Port == nil {
			delete(d.ports, c.Name)
			d.quarantine.release(c.Name)
			d.opts.Closed(c.Name)
		}
	}
	return errors.Join(err, d.Unguard(ctx))
}
