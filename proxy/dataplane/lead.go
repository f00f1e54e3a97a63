package dataplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// lead has portals lead where plans say, and returns which lead elsewhere now. What the writer refuses is found and set
// aside; an error is one of the host, which refuses even what it held before.
func (d *Dataplane) lead(ctx context.Context, plans []plan, all bool) ([]portal.Change, error) {
	before := d.standing(plans)
	led := d.enter(plans)
	err := d.write(ctx, led, all)
	if err == nil || ctx.Err() != nil {
		return led, err
	}
	if err := d.undo(ctx, before, err); err != nil {
		return nil, err
	}
	d.vain = 0
	return d.halve(ctx, plans, err)
}

// write has the writer hold what the table says. If it cannot take changes, that may be because others changed what it
// knew of the host, and nobody's fault.
func (d *Dataplane) write(ctx context.Context, led []portal.Change, all bool) error {
	var refused error
	if !all {
		if refused = d.update(ctx, led); refused == nil || ctx.Err() != nil {
			return refused
		}
	}
	return errors.Join(refused, d.replace(ctx))
}

func (d *Dataplane) update(ctx context.Context, led []portal.Change) error {
	if !d.guard() && len(led) == 0 {
		return nil
	}
	if err := d.opts.Writer.Update(ctx, led); err != nil {
		return fmt.Errorf("lead %d portals: %w", len(led), err)
	}
	return nil
}

func (d *Dataplane) replace(ctx context.Context) error {
	d.guard()
	all := d.table.Portals()
	if err := d.opts.Writer.Replace(ctx, all); err != nil {
		return fmt.Errorf("lead all %d portals: %w", len(all), err)
	}
	return nil
}

// undo has the table and the host hold what was there before plans that the writer refused.
func (d *Dataplane) undo(ctx context.Context, before []plan, refused error) error {
	d.back(before)
	if err := d.replace(ctx); err != nil {
		return errors.Join(refused, err)
	}
	return nil
}

// most is how many tries may be in vain in one round: enough to find one among a million, or several.
const most = 24

// halve finds which of some plans, that the writer refuses together, it refuses by themselves. What there is no time for
// in this round waits for the next.
func (d *Dataplane) halve(ctx context.Context, plans []plan, refused error) (led []portal.Change, err error) {
	if len(plans) == 1 {
		return d.refuse(ctx, plans[0], refused)
	}
	if d.vain++; d.vain > most {
		for _, p := range plans {
			d.aside.queue(p.change)
		}
		return nil, nil
	}
	for _, half := range [][]plan{plans[:len(plans)/2], plans[len(plans)/2:]} {
		more, err := d.try(ctx, half)
		led = append(led, more...)
		if err != nil {
			return led, err
		}
	}
	return newest(led), nil
}

// try is lead for plans that are suspect.
func (d *Dataplane) try(ctx context.Context, plans []plan) ([]portal.Change, error) {
	before := d.standing(plans)
	led := d.enter(plans)
	err := d.update(ctx, led)
	if err == nil || ctx.Err() != nil {
		return led, err
	}
	if err := d.undo(ctx, before, err); err != nil {
		return nil, err
	}
	return d.halve(ctx, plans, err)
}

// refuse sets a service port aside whose portals the writer refuses. Its clients are refused if the writer takes that, or
// else not led anywhere.
func (d *Dataplane) refuse(ctx context.Context, p plan, refused error) ([]portal.Change, error) {
	d.setAside(p.change, ByRules, refused)
	if p.change.Port == nil {
		return nil, nil // its portals stay
	}
	p.portals, _ = d.sound(p.change.Name, refusing(p.change.Port))
	before := d.standing([]plan{p})
	led := d.enter([]plan{p})
	err := d.update(ctx, led)
	if err == nil || ctx.Err() != nil {
		return led, err
	}
	p.portals = nil
	led = append(led, d.enter([]plan{p})...)
	if err := d.replace(ctx); err != nil {
		return nil, d.undo(ctx, before, err)
	}
	return newest(led), nil
}

// retry tries what was set aside and is due, one after the other until the writer refuses one again, and returns which
// were tried.
func (d *Dataplane) retry(ctx context.Context) (tried []service.Change, led []portal.Change, err error) {
	for _, c := range d.aside.due() {
		began, refusals := time.Now(), d.refusals
		p := d.plan(c)
		more, err := d.try(ctx, []plan{p})
		tried, led = append(tried, c), append(led, more...)
		if err != nil {
			return tried, led, err
		}
		if d.refusals != refusals {
			d.aside.spent(time.Since(began))
			break
		}
		d.takeBack(c.Name)
	}
	return tried, newest(led), nil
}

// setAside has the others go on without a service port.
func (d *Dataplane) setAside(c service.Change, reason Reason, err error) {
	d.refusals++
	if d.aside.put(c, reason) {
		d.opts.Aside(News{c.Name, reason, err})
	}
}

// takeBack is for one that is served as it asks to be, or gone.
func (d *Dataplane) takeBack(name service.PortName) {
	if d.aside.drop(name) {
		d.opts.Aside(News{Name: name})
	}
}
