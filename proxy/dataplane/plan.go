package dataplane

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// plan is the portals that a service port is to have after a change.
type plan struct {
	change  service.Change
	created time.Time
	portals []portal.Portal // empty: it is to have none
}

// errNoCarrier is the error of a service port whose mode the daemon does not have.
var errNoCarrier = errors.New("this daemon does not have the mode that the Service asks for")

// plans has carriers prepare changes. A service port that cannot be served is set aside and refuses its clients; the
// others are not affected.
func (d *Dataplane) plans(changes []service.Change) []plan {
	out := make([]plan, 0, len(changes))
	for _, c := range changes {
		out = append(out, d.plan(c))
	}
	return out
}

func (d *Dataplane) plan(c service.Change) plan {
	if c.Port == nil {
		d.check.set(c.Name, 0)
		return plan{change: c}
	}
	d.ports[c.Name] = c.Port
	d.check.set(c.Name, c.Port.HealthCheckPort)
	d.opts.Serving(c.Port)
	portals, reason, err := d.serve(c.Port)
	portals, invalid := d.valid(c.Name, portals)
	if err == nil && invalid != nil {
		reason, err = ByPortal, invalid
	}
	if err != nil {
		d.setAside(c, reason, err)
	}
	return plan{c, c.Port.Created, portals}
}

// serve has the carrier of a service port prepare it, and returns the portals.
func (d *Dataplane) serve(p *service.Port) ([]portal.Portal, Reason, error) {
	if by, _ := d.carriers(p); by != nil {
		portals, err := by.Serve(p)
		return portals, ByListener, err
	}
	return rejects(p), ByMode, fmt.Errorf("serve %s: %w", p.Name, errNoCarrier)
}

// rejects are portals that refuse all clients of a service port.
func rejects(p *service.Port) []portal.Portal {
	out := make([]portal.Portal, 0, len(p.Exposures))
	for _, x := range p.Exposures {
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: portal.Reject{}})
	}
	return out
}

// valid returns the portals that the writer can hold, as far as it can tell without trying.
func (d *Dataplane) valid(owner service.PortName, portals []portal.Portal) ([]portal.Portal, error) {
	checker, ok := d.opts.Writer.(portal.Checker)
	if !ok {
		return portals, nil
	}
	var errs []error
	return slices.DeleteFunc(portals, func(p portal.Portal) bool {
		p.Owner = owner
		err := checker.Check(p)
		errs = append(errs, err)
		return err != nil
	}), errors.Join(errs...)
}

// claim enters plans into the table, and returns the portals that changed.
func (d *Dataplane) claim(plans []plan) []portal.Change {
	var changed []portal.Change
	for _, p := range plans {
		moved, conflicts := d.table.Set(p.change.Name, p.created, p.portals)
		changed = append(changed, moved...)
		d.conflicts = append(d.conflicts, conflicts...)
	}
	return newest(changed)
}

// currentPlans returns plans that leave the table as it is.
func (d *Dataplane) currentPlans(plans []plan) []plan {
	out := make([]plan, 0, len(plans))
	for _, p := range plans {
		created, portals := d.table.Claims(p.change.Name)
		out = append(out, plan{p.change, created, portals})
	}
	return out
}

// restore enters the plans that the table held before, and drops the conflicts of those that it had instead.
func (d *Dataplane) restore(before []plan) {
	known := len(d.conflicts)
	d.claim(before)
	restored := make(map[service.PortName]struct{}, len(before))
	for _, p := range before {
		restored[p.change.Name] = struct{}{}
	}
	d.conflicts = slices.DeleteFunc(d.conflicts[:known], func(c portal.Conflict) bool {
		_, holds := restored[c.Holder]
		_, loses := restored[c.Loser]
		return holds || loses
	})
}

// newest merges the changes of each frontend: one that passes from one Service to another changes twice.
func newest(changes []portal.Change) []portal.Change {
	at := make(map[service.Frontend]int, len(changes))
	out := changes[:0]
	for _, c := range changes {
		if i, ok := at[c.Frontend]; ok {
			c.Was = out[i].Was
			out[i] = c
			continue
		}
		at[c.Frontend] = len(out)
		out = append(out, c)
	}
	return out
}
