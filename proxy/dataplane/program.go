package dataplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// program writes the portals of plans to the host, and returns those that changed. Plans that the writer refuses are
// found and set aside; an error is one of the host, which refuses even what it held before.
func (d *Dataplane) program(ctx context.Context, plans []plan, all bool) ([]portal.Change, error) {
	before := d.currentPlans(plans)
	changed := d.claim(plans)
	err := d.write(ctx, changed, all)
	if err == nil || ctx.Err() != nil {
		return changed, err
	}
	if err := d.undo(ctx, before, err); err != nil {
		return nil, err
	}
	d.failedBatches = 0
	return d.bisect(ctx, plans, err)
}

// write has the writer hold what the table holds. An Update may fail because others changed the host's rules, and no
// plan is to blame: Replace decides.
func (d *Dataplane) write(ctx context.Context, changed []portal.Change, all bool) error {
	if all && d.adopt(ctx) {
		d.stale.all = true
		return nil
	}
	if all {
		return d.replace(ctx)
	}
	refused := d.update(ctx, changed)
	if refused == nil || ctx.Err() != nil {
		return refused
	}
	if err := d.replace(ctx); err != nil {
		return errors.Join(refused, err)
	}
	d.opts.Rewritten(refused)
	return nil
}

func (d *Dataplane) update(ctx context.Context, changed []portal.Change) error {
	if !d.guard() && len(changed) == 0 {
		return nil
	}
	if err := d.opts.Writer.Update(ctx, changed); err != nil {
		return fmt.Errorf("program %d portals: %w", len(changed), err)
	}
	return nil
}

// adopt has the writer go on with what an earlier run wrote, and tells whether it does.
func (d *Dataplane) adopt(ctx context.Context) bool {
	adopter, ok := d.opts.Writer.(portal.Adopter)
	if !ok || !d.opts.Inherits() {
		return false
	}
	d.guard()
	all := d.table.Portals()
	err := adopter.Adopt(ctx, all)
	if err != nil {
		err = fmt.Errorf("adopt %d portals: %w", len(all), err)
	}
	d.opts.Adopted(err)
	return err == nil
}

func (d *Dataplane) replace(ctx context.Context) error {
	d.guard()
	var all []portal.Portal
	if !d.closed {
		all = d.table.Portals()
	}
	if err := d.opts.Writer.Replace(ctx, all); err != nil {
		return fmt.Errorf("program all %d portals: %w", len(all), err)
	}
	d.stale.all = true // the rules of any portal may have been away
	return nil
}

// undo restores what the table and the host held before plans that the writer refused.
func (d *Dataplane) undo(ctx context.Context, before []plan, refused error) error {
	d.restore(before)
	if err := d.replace(ctx); err != nil {
		return errors.Join(refused, err)
	}
	return nil
}

// maxFailedBatches is how many batches of several plans may fail in one round: enough to find one plan among a million,
// or several among fewer.
const maxFailedBatches = 24

// bisect finds which of several plans, that the writer refuses together, it refuses one by one. When a round has had
// maxFailedBatches, the rest is queued for the next one.
func (d *Dataplane) bisect(ctx context.Context, plans []plan, refused error) (changed []portal.Change, err error) {
	if len(plans) == 1 {
		return d.refuse(ctx, plans[0], refused)
	}
	if d.failedBatches++; d.failedBatches > maxFailedBatches {
		for _, p := range plans {
			d.aside.queue(p.change)
		}
		return nil, nil
	}
	for _, half := range [][]plan{plans[:len(plans)/2], plans[len(plans)/2:]} {
		more, err := d.try(ctx, half)
		changed = append(changed, more...)
		if err != nil {
			return changed, err
		}
	}
	return newest(changed), nil
}

// try is program for plans that the writer may refuse.
func (d *Dataplane) try(ctx context.Context, plans []plan) ([]portal.Change, error) {
	before := d.currentPlans(plans)
	changed := d.claim(plans)
	err := d.update(ctx, changed)
	if err == nil || ctx.Err() != nil {
		return changed, err
	}
	if err := d.undo(ctx, before, err); err != nil {
		return nil, err
	}
	return d.bisect(ctx, plans, err)
}

// refuse sets aside a service port whose portals the writer refuses. Its clients are refused if the writer accepts
// that; otherwise it has no portals.
func (d *Dataplane) refuse(ctx context.Context, p plan, refused error) ([]portal.Change, error) {
	d.setAside(p.change, ByRules, refused)
	if p.change.Port == nil {
		return nil, nil // its portals stay
	}
	p.portals, _ = d.valid(p.change.Name, rejects(p.change.Port))
	before := d.currentPlans([]plan{p})
	changed := d.claim([]plan{p})
	err := d.update(ctx, changed)
	if err == nil || ctx.Err() != nil {
		return changed, err
	}
	p.portals = nil
	changed = append(changed, d.claim([]plan{p})...)
	if err := d.replace(ctx); err != nil {
		return nil, d.undo(ctx, before, err)
	}
	return newest(changed), nil
}

// retry tries the service ports that were set aside and are due, one by one until the writer refuses one again, and
// returns which it tried and the portals that changed.
func (d *Dataplane) retry(ctx context.Context) (tried []service.Change, changed []portal.Change, err error) {
	now := time.Now() // what is set aside from here on has its turn in a later round
	for c, ok := d.aside.due(now); ok; c, ok = d.aside.due(now) {
		began, refusals := time.Now(), d.refusals
		more, err := d.try(ctx, []plan{d.plan(c)})
		tried, changed = append(tried, c), append(changed, more...)
		if err != nil {
			return tried, changed, err
		}
		if d.refusals != refusals {
			d.aside.throttle(time.Since(began))
			break
		}
		d.takeBack(c.Name)
	}
	return tried, newest(changed), nil
}

// setAside sets a service port aside, so that all others go on.
func (d *Dataplane) setAside(c service.Change, reason Reason, err error) {
	d.refusals++
	if d.aside.put(c, reason, err) {
		d.opts.Aside(News{c.Name, reason, err})
	}
}

// takeBack ends that for a service port that is served as it asks to be, or is gone.
func (d *Dataplane) takeBack(name service.PortName) {
	if d.aside.drop(name) {
		d.opts.Aside(News{Name: name})
	}
}
