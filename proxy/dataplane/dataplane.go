// Package dataplane leads the frontends of each service port to where the carrier of its mode says: to listeners of the
// daemon, or straight to endpoints. It knows neither how traffic is carried nor how portals are written.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// Carrier carries service ports in one mode.
type Carrier interface {
	// Serve gets ready to carry a service port, or brings what carries it up to date, and returns where its portals are to
	// lead, also with an error.
	Serve(p *service.Port) ([]portal.Portal, error)
	// Retire is told, once a round, which service ports' portals lead where the last Serve said now, and to which nothing
	// leads here any more: such a one is gone (Port is nil), or carried by another. It may never have been served here.
	Retire(served []service.PortName, left []service.Change) error
	// ProxyPorts tells which proxy ports were opened and closed since it was last asked.
	ProxyPorts() map[portal.ProxyPort]bool
}

// Options of a Dataplane.
type Options struct {
	Writer            portal.Writer
	Userspace, Kernel Carrier      // nil: service ports of that mode refuse their clients
	Mode              service.Mode // of service ports that do not say

	// ForgetUDP has the kernel forget the UDP flows that stale accepts, by the address that the client wrote to and the one
	// that answers. nil = nothing is translated by the kernel.
	ForgetUDP func(ctx context.Context, stale func(dst, answers netip.AddrPort) bool) (int, error)
	// FlowPeriod is how often Sweep looks through all UDP flows; 0 = never.
	FlowPeriod time.Duration
	// Own tells the addresses of this host, which NodePorts are served on.
	Own func(netip.Addr) bool
	// Serving is told of each service port that is new or changed, before anything is done for it. Default none.
	Serving func(*service.Port)
	// Contested is told of each claim of an address that another Service holds. Default none.
	Contested func(portal.Conflict)
	// Aside is told of service ports that cannot be served as they ask to be, and when they can again. Default none.
	Aside func(News)
	// Counted is told after each round how many are set aside. Default none.
	Counted func(int)
	// Closed is told of service ports that are no longer served. Default none.
	Closed func(service.PortName)
	// Trouble is told why a Sweep could not look through UDP flows. Default none.
	Trouble func(error)
}

// Dataplane implements proxy.Dataplane. One goroutine calls it.
type Dataplane struct {
	opts  Options
	table *portal.Table
	ports map[service.PortName]*service.Port // as applied, and not yet retired
	aside *aside
	left  []portal.Change // what led to listeners before the end began

	flowsDue time.Time // when Sweep looks through UDP flows again; zero before the first Sweep

	lost     []portal.Conflict // in this round
	vain     int               // tries of several service ports that were refused in this round
	refusals int               // so far
}

// New returns a Dataplane that leads nothing yet.
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
	if opts.Trouble == nil {
		opts.Trouble = func(error) {}
	}
	return &Dataplane{opts: opts, table: portal.NewTable(), ports: map[service.PortName]*service.Port{}, aside: newAside()}
}

// Due receives when a service port that was set aside is to be tried again: by a Sync, with changes or without.
func (d *Dataplane) Due() <-chan struct{} { return d.aside.wake }

// Sync applies changes: carriers get ready, then portals are led to them, then what no portal leads to any more closes,
// so that no moment comes in which a portal leads nowhere. A proxy port is guarded as long as a listener has it: with the
// portals that lead there from the first on, and until it is closed. Costs O(the changed service ports). One that cannot be
// served is set aside, and tried again by itself; an error is one of the host, on which nothing could be changed.
func (d *Dataplane) Sync(ctx context.Context, changes []service.Change) error {
	changes = d.aside.sift(changes)
	led, err := d.lead(ctx, d.plans(changes), false)
	return d.finish(ctx, changes, led, err)
}

// Resync applies the whole state. What is set aside stays so until it is due.
func (d *Dataplane) Resync(ctx context.Context, ports []*service.Port) error {
	changes := d.aside.sift(d.against(ports))
	_, err := d.lead(ctx, d.plans(changes), true)
	return d.finish(ctx, changes, asChanges(d.table.Portals()), err)
}

// finish ends a round: what is due of that which is set aside is tried, carriers close what is of no use any more, and
// flows go that lead elsewhere now.
func (d *Dataplane) finish(ctx context.Context, changes []service.Change, led []portal.Change, err error) error {
	defer d.rest()
	if err != nil {
		return err
	}
	tried, more, err := d.retry(ctx)
	if err != nil {
		return err
	}
	for _, conflict := range d.lost {
		d.opts.Contested(conflict)
	}
	changes = slices.DeleteFunc(append(changes, tried...), d.aside.stays)
	return errors.Join(d.retire(ctx, changes), d.forget(ctx, newest(slices.Concat(led, more, d.spread(changes)))))
}

// rest is until the next round.
func (d *Dataplane) rest() {
	d.lost = nil
	d.aside.rest()
	d.opts.Counted(d.aside.refused())
}

// Audit asks the writer whether the host holds what was written, and changes nothing.
func (d *Dataplane) Audit(ctx context.Context) error {
	if auditor, ok := d.opts.Writer.(portal.Auditor); ok {
		return auditor.Audit(ctx)
	}
	return nil
}

// Unguard lets go of the proxy ports that carriers have closed by themselves.
func (d *Dataplane) Unguard(ctx context.Context) error {
	if !d.guard() {
		return nil
	}
	if err := d.opts.Writer.Update(ctx, nil); err != nil {
		return fmt.Errorf("let go of closed proxy ports: %w", err)
	}
	return nil
}

// guard tells the writer which proxy ports are open now; false: those it knows of.
func (d *Dataplane) guard() (news bool) {
	for _, carrier := range []Carrier{d.opts.Userspace, d.opts.Kernel} {
		if carrier == nil {
			continue
		}
		if ports := carrier.ProxyPorts(); len(ports) > 0 {
			d.opts.Writer.Guard(ports)
			news = true
		}
	}
	return news
}

// carriers returns who carries a service port, and who does not, either nil where there is none.
func (d *Dataplane) carriers(p *service.Port) (by, other Carrier) {
	if p.Mode.Or(d.opts.Mode) == service.ModeKernel {
		return d.opts.Kernel, d.opts.Userspace
	}
	return d.opts.Userspace, d.opts.Kernel
}

// against turns a whole state into changes.
func (d *Dataplane) against(ports []*service.Port) []service.Change {
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

// retire has carriers close what has no use any more, once portals lead elsewhere.
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
