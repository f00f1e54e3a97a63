package dataplane

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// plan is what a change of a service port is to make of its portals.
type plan struct {
	change  service.Change
	created time.Time
	portals []portal.Portal // none withdraws it
}

// errNoCarrier is the error of a service port whose mode the daemon does not have.
var errNoCarrier = errors.New("this daemon does not have the mode that the Service asks for")

// plans has carriers get ready. What cannot be served is set aside, and its clients are refused; the others are not
// concerned.
func (d *Dataplane) plans(changes []service.Change) []plan {
	out := make([]plan, 0, len(changes))
	for _, c := range changes {
		out = append(out, d.plan(c))
	}
	return out
}

func (d *Dataplane) plan(c service.Change) plan {
	if c.Port == nil {
		return plan{change: c}
	}
	d.ports[c.Name] = c.Port
	d.opts.Serving(c.Port)
	portals, reason, err := d.serve(c.Port)
	portals, unsound := d.sound(c.Name, portals)
	if err == nil && unsound != nil {
		reason, err = ByPortal, unsound
	}
	if err != nil {
		d.setAside(c, reason, err)
	}
	return plan{c, c.Port.Created, portals}
}

// serve asks the carrier of a service port where its portals are to lead.
func (d *Dataplane) serve(p *service.Port) ([]portal.Portal, Reason, error) {
	if by, _ := d.carriers(p); by != nil {
		portals, err := by.Serve(p)
		return portals, ByListener, err
	}
	return refusing(p), ByMode, fmt.Errorf("serve %s: %w", p.Name, errNoCarrier)
}

// refusing are portals that refuse all clients of a service port.
func refusing(p *service.Port) []portal.Portal {
	out := make([]portal.Portal, 0, len(p.Exposures))
	for _, x := range p.Exposures {
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: portal.Reject{}})
	}
	return out
}

// sound are the portals that the writer can hold, as far as a look at each tells.
func (d *Dataplane) sound(owner service.PortName, portals []portal.Portal) ([]portal.Portal, error) {
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

// enter has the table hold what plans say, and returns where portals lead elsewhere than before.
func (d *Dataplane) enter(plans []plan) []portal.Change {
	var led []portal.Change
	for _, p := range plans {
		moved, lost := d.table.Set(p.change.Name, p.created, p.portals)
		led = append(led, moved...)
		d.lost = append(d.lost, lost...)
	}
	return newest(led)
}

// standing are plans that leave everything as it is.
func (d *Dataplane) standing(plans []plan) []plan {
	out := make([]plan, 0, len(plans))
	for _, p := range plans {
		created, portals := d.table.Claims(p.change.Name)
		out = append(out, plan{p.change, created, portals})
	}
	return out
}

// back has the table hold what it held before plans were entered.
func (d *Dataplane) back(before []plan) {
	known := len(d.lost)
	d.enter(before)
	entered := make(map[service.PortName]struct{}, len(before))
	for _, p := range before {
		entered[p.change.Name] = struct{}{}
	}
	d.lost = slices.DeleteFunc(d.lost[:known], func(c portal.Conflict) bool {
		_, holds := entered[c.Holder]
		_, loses := entered[c.Loser]
		return holds || loses
	})
}

// newest keeps the last change of each frontend: one that passes from one Service to another changes twice.
func newest(changes []portal.Change) []portal.Change {
	at := make(map[service.Frontend]int, len(changes))
	out := changes[:0]
	for _, c := range changes {
		if i, ok := at[c.Frontend]; ok {
			out[i] = c
			continue
		}
		at[c.Frontend] = len(out)
		out = append(out, c)
	}
	return out
}
