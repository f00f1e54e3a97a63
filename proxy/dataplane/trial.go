package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// trial programs plans, and finds those that the writer refuses: it reports only that it refuses some of what it is
// given. The host keeps its previous state meanwhile.
type trial struct {
	planner    *planner
	claims     *claims
	host       *host
	quarantine *quarantine

	failedBatches int // of this sync
}

// program writes the portals of plans to the host, and returns those that changed. Plans that the writer refuses are
// found and quarantined; an error is one of the host, which refuses even what it had before. With all, it writes
// whatever was written before.
func (t *trial) program(ctx context.Context, plans []plan, all bool) ([]portal.Change, error) {
	return t.attempt(ctx, plans, func(changed []portal.Change) error {
		t.failedBatches = 0
		if all {
			return t.host.writeAll(ctx)
		}
		return t.host.write(ctx, changed)
	})
}

// attempt enters plans into the table and writes them. If the writer refuses them, they are undone, and tried in parts.
func (t *trial) attempt(
	ctx context.Context, plans []plan, write func([]portal.Change) error,
) ([]portal.Change, error) {
	before := t.claims.current(plans)
	changed := t.claims.enter(plans)
	err := write(changed)
	if err == nil || ctx.Err() != nil {
		return changed, err
	}
	if err := t.undo(ctx, before, err); err != nil {
		return nil, err
	}
	return t.bisect(ctx, plans, err)
}

// part is program for plans that the writer may refuse.
func (t *trial) part(ctx context.Context, plans []plan) ([]portal.Change, error) {
	return t.attempt(ctx, plans, func(changed []portal.Change) error { return t.host.update(ctx, changed) })
}

// undo restores the table and the host to their state before plans that the writer refused.
func (t *trial) undo(ctx context.Context, before []plan, refused error) error {
	t.claims.restore(before)
	if err := t.host.replace(ctx); err != nil {
		return errors.Join(refused, err)
	}
	return nil
}

// maxFailedBatches is how many batches of several plans may fail in one sync: enough to find one plan among a million,
// or several among fewer.
const maxFailedBatches = 24

// bisect finds which of several plans, that the writer refuses together, it refuses one by one. When a sync has had
// maxFailedBatches, the rest is queued for the next one.
func (t *trial) bisect(ctx context.Context, plans []plan, refused error) (changed []portal.Change, err error) {
	if len(plans) == 1 {
		return t.refuse(ctx, plans[0].change, refused)
	}
	if t.failedBatches++; t.failedBatches > maxFailedBatches {
		for _, p := range plans {
			t.quarantine.queue(p.change)
		}
		return nil, nil
	}
	for _, half := range [][]plan{plans[:len(plans)/2], plans[len(plans)/2:]} {
		more, err := t.part(ctx, half)
		changed = append(changed, more...)
		if err != nil {
			return changed, err
		}
	}
	return newest(changed), nil
}

// refuse quarantines a service port whose portals the writer refuses. Its clients are refused if the writer accepts
// that; otherwise it has no portals.
func (t *trial) refuse(ctx context.Context, c service.Change, refused error) ([]portal.Change, error) {
	t.quarantine.put(c, ByRules, refused)
	if c.Port == nil {
		return nil, nil // its portals stay
	}
	p := t.planner.refusal(c)
	before := t.claims.current([]plan{p})
	changed := t.claims.enter([]plan{p})
	err := t.host.update(ctx, changed)
	if err == nil || ctx.Err() != nil {
		return changed, err
	}
	p.portals = nil
	changed = append(changed, t.claims.enter([]plan{p})...)
	if err := t.host.replace(ctx); err != nil {
		return nil, t.undo(ctx, before, err)
	}
	return newest(changed), nil
}

// retry tries the service ports in quarantine that are due, one by one until the writer refuses one again, and returns
// which it tried and the portals that changed.
func (t *trial) retry(ctx context.Context) (tried []service.Change, changed []portal.Change, err error) {
	now := time.Now() // what is quarantined from here on has its turn in a later sync
	for c, ok := t.quarantine.due(now); ok; c, ok = t.quarantine.due(now) {
		began, refusals := time.Now(), t.quarantine.refusals
		more, err := t.part(ctx, []plan{t.planner.plan(c)})
		tried, changed = append(tried, c), append(changed, more...)
		if err != nil {
			return tried, changed, err
		}
		if t.quarantine.refusals != refusals {
			t.quarantine.throttle(time.Since(began))
			break
		}
		t.quarantine.release(c.Name)
	}
	return tried, newest(changed), nil
}
