// Package dataplane programs the portals of each service port as the carrier of its mode says: to listeners of the
// daemon, or straight to endpoints. It knows neither how traffic is carried nor how portals are written.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Carrier carries service ports in one mode.
type Carrier interface {
	// Serve prepares to carry a service port, or updates what carries it, and returns its portals, also with an error.
	Serve(p *service.Port) ([]portal.Portal, error)
	// Retire closes what portals no longer lead to. It is called once a round: served are the service ports whose portals
	// are now those of the last Serve, left are those without portals to this carrier. The latter are gone (Port is nil)
	// or carried by another, and may never have been served here.
	Retire(served []service.PortName, left []service.Change) error
	// ProxyPorts returns the proxy ports that were opened (true) and closed since the last call.
	ProxyPorts() map[portal.ProxyPort]bool
}

// Foreteller is a Carrier that may serve a changed service port as its portals are.
type Foreteller interface {
	// Foretell returns the portals that Serve would, and changes nothing. False: it would open or close a proxy port.
	Foretell(p *service.Port) ([]portal.Portal, bool)
}

// Options of a Dataplane.
type Options struct {
	Writer            portal.Writer
	Userspace, Kernel Carrier      // nil: service ports of that mode refuse their clients
	Mode              service.Mode // of service ports that set none

	// DeleteFlows deletes the flows of a query that stale accepts from the kernel's conntrack table, and returns how many.
	// nil = the kernel translates nothing.
	DeleteFlows func(ctx context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (int, error)
	// FlowPeriod is how often Sweep looks for stale flows of all frontends; 0 = never.
	FlowPeriod time.Duration
	// Own tells whether an address is this host's: NodePorts are served there.
	Own func(netip.Addr) bool
	// Inherits tells at a Resync whether the host may hold what an earlier run wrote for the same listeners. If that is
	// exactly what a Writer that is an Adopter would write, it goes on with it; otherwise it writes all. nil = never.
	Inherits func() bool

	// What follows reports events; nil = to nobody.
	Serving   func(*service.Port)    // a service port is new or changed, and nothing was done for it yet
	Contested func(portal.Conflict)  // a service port claims an address that another Service holds
	Aside     func(News)             // a service port cannot be served as it asks to be, or can again
	Counted   func(int)              // after each round: how many service ports are set aside
	Closed    func(service.PortName) // a service port is no longer served
	Warn      func(error)            // stale flows could not be looked for
	Adopted   func(error)            // the Writer goes on with what an earlier run wrote; or why not: all is written anew
	Rewritten func(error)            // a change failed, and all was written anew: others have changed the host's rules
}

// Dataplane implements proxy.Dataplane. One goroutine calls it.
type Dataplane struct {
	opts   Options
	table  *portal.Table
	ports  map[service.PortName]*service.Port // as applied, and not yet retired
	aside  *aside
	check  checkPorts
	left   []portal.Change // portals to listeners that Close or HandOver changed; of Close, as they were
	closed bool            // by Close

	stale    flows     // to be deleted
	nextLook time.Time // for stale flows, at the earliest
	flowsDue time.Time // when Sweep looks for those of all frontends; zero before the first Sweep

	conflicts     []portal.Conflict // of this round
	failedBatches int               // of this round
	refusals      int               // so far
}

// New returns a Dataplane without portals.
func New(opts Options) *Dataplane {
	if opts.Serving == nil {
		opts.Serving = func(*service.Port) {}
	}
	if opts.Closed == nil {
		opts.Closed = func(service.PortName) {}
	}
	if opts.Contested == nil {
		opts.Contested = func(portal.Conflict) {}
	}
	if opts.Aside == nil {
		opts.Aside = func(News) {}
	}
	if opts.Counted == nil {
		opts.Counted = func(int) {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	if opts.Inherits == nil {
		opts.Inherits = func() bool { return false }
	}
	if opts.Adopted == nil {
		opts.Adopted = func(error) {}
	}
	if opts.Rewritten == nil {
		opts.Rewritten = func(error) {}
	}
	return &Dataplane{
		opts: opts, table: portal.NewTable(), ports: map[service.PortName]*service.Port{}, aside: newAside(),
		check: newCheckPorts(),
	}
}

// Due receives when a service port that was set aside is due to be tried again, by a Sync with changes or without.
func (d *Dataplane) Due() <-chan struct{} { return d.aside.wake }

// Held returns the portal of a frontend, nil if no Service has it. Any goroutine may ask, also while a Sync runs: the
// host has it then, or is about to.
func (d *Dataplane) Held(f service.Frontend) *portal.Portal { return d.table.Held(f) }

// Sync applies changes: carriers prepare, then portals are programmed, then carriers close what portals no longer lead
// to, so that at no moment a portal leads to a listener that is not open. A proxy port is guarded while a listener is
// open there: from the transaction that programs its first portal until the listener has closed. Costs O(the changed
// service ports). A service port that cannot be served is set aside, and tried again by itself; an error is one of the
// host, where nothing could be changed.
func (d *Dataplane) Sync(ctx context.Context, changes []service.Change) error {
	changes = d.aside.filter(changes)
	changed, err := d.program(ctx, d.plans(changes), false)
	return d.finish(ctx, changes, changed, err)
}

// WritesNoRule tells whether a Sync of a change would write nothing: that of endpoints alone in userspace, as long as
// some are left. It costs O(the service port).
func (d *Dataplane) WritesNoRule(c service.Change) bool {
	was := d.ports[c.Name]
	if c.Port == nil || was == nil || d.aside.ports[c.Name] != nil {
		return false
	}
	by, _ := d.carriers(c.Port)
	if before, _ := d.carriers(was); by != before {
		return false
	}
	carrier, ok := by.(Foreteller)
	if !ok {
		return false
	}
	portals, ok := carrier.Foretell(c.Port)
	return ok && d.table.Keeps(c.Name, c.Port.Created, portals)
}

// Resync applies the whole state. What is set aside stays so until it is due.
func (d *Dataplane) Resync(ctx context.Context, ports []*service.Port) error {
	changes := d.aside.filter(d.changesTo(ports))
	changed, err := d.program(ctx, d.plans(changes), true)
	return d.finish(ctx, changes, changed, err)
}

// finish ends a round: it tries the service ports that were set aside and are due, has carriers close what is unused,
// and deletes stale flows.
func (d *Dataplane) finish(ctx context.Context, changes []service.Change, changed []portal.Change, err error) error {
	defer d.endRound()
	if err != nil {
		return err
	}
	tried, more, err := d.retry(ctx)
	if err != nil {
		return err
	}
	for _, conflict := range d.conflicts {
		d.opts.Contested(conflict)
	}
	changes = slices.DeleteFunc(append(changes, tried...), d.aside.keepsPortals)
	d.stale.add(newest(slices.Concat(changed, more, d.spreadUDP(changes))))
	err = d.retire(ctx, changes)
	d.deleteStale(ctx)
	return err
}

func (d *Dataplane) endRound() {
	d.conflicts = nil
	d.aside.schedule()
	d.opts.Counted(d.aside.refused)
}

// Audit asks the writer whether the host holds what was written, and changes nothing.
func (d *Dataplane) Audit(ctx context.Context) error {
	if auditor, ok := d.opts.Writer.(portal.Auditor); ok {
		return auditor.Audit(ctx)
	}
	return nil
}

// Disturbed asks the writer whether there is a sign that the host no longer does.
func (d *Dataplane) Disturbed() bool {
	auditor, ok := d.opts.Writer.(portal.Auditor)
	return ok && auditor.Disturbed()
}

// Unguard stops guarding the proxy ports that carriers have closed since the last round.
func (d *Dataplane) Unguard(ctx context.Context) error {
	if err := d.write(ctx, nil, false); err != nil {
		return fmt.Errorf("unguard closed proxy ports: %w", err)
	}
	return nil
}

// guard passes on to the writer which proxy ports and health-check ports were opened and closed. False: none.
func (d *Dataplane) guard() (changed bool) {
	changed = d.check.tell(d.opts.Writer)
	for _, carrier := range []Carrier{d.opts.Userspace, d.opts.Kernel} {
		if carrier == nil {
			continue
		}
		if ports := carrier.ProxyPorts(); len(ports) > 0 {
			d.opts.Writer.Guard(ports)
			changed = true
		}
	}
	return changed
}

// carriers returns the carrier of a service port, and the other one. Either may be nil.
func (d *Dataplane) carriers(p *service.Port) (by, other Carrier) {
	if p.Mode.Or(d.opts.Mode) == service.ModeKernel {
		return d.opts.Kernel, d.opts.Userspace
	}
	return d.opts.Userspace, d.opts.Kernel
}

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

// retire has carriers close what portals no longer lead to.
func (d *Dataplane) retire(ctx context.Context, changes []service.Change) error {
	served, left := map[Carrier][]service.PortName{}, map[Carrier][]service.Change{}
	for _, c := range changes {
		if c.Port == nil {
			left[d.opts.Userspace], left[d.opts.Kernel] = append(left[d.opts.Userspace], c), append(left[d.opts.Kernel], c)
			continue
		}
		by, other := d.carriers(c.Port)
		served[by], left[other] = append(served[by], c.Name), append(left[other], c)
	}
	var errs []error
	for _, carrier := range []Carrier{d.opts.Userspace, d.opts.Kernel} {
		if carrier != nil {
			errs = append(errs, carrier.Retire(served[carrier], left[carrier]))
		}
	}
	for _, c := range changes {
		if c.Port == nil {
			delete(d.ports, c.Name)
			d.takeBack(c.Name)
			d.opts.Closed(c.Name)
		}
	}
	return errors.Join(append(errs, d.Unguard(ctx))...)
}

// asChanges lists portals as changes.
func asChanges(portals []portal.Portal) []portal.Change {
	out := make([]portal.Change, 0, len(portals))
	for _, p := range portals {
		out = append(out, portal.Change{Frontend: p.Frontend, Portal: &p})
	}
	return out
}
