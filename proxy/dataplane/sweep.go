package dataplane

import (
	"context"
	"errors"
	"time"
)

// Sweeper is a Carrier or a Writer that holds what ends without a change: after a time, or once it is unused.
type Sweeper interface {
	// Sweep ends what is due, and returns when to look again; zero: not before the next change.
	Sweep(ctx context.Context) (next time.Time, err error)
}

// Sweep has carriers and the writer end what is due, and looks for stale flows: those that it was too early to look
// for, and each Options.FlowPeriod all, since one that began while rules changed may go by those of before. It returns
// when to look again; zero: not before the next change. After an error only Resync may follow.
func (d *Dataplane) Sweep(ctx context.Context) (next time.Time, err error) {
	var errs []error
	for _, part := range []any{d.opts.Userspace, d.opts.Kernel, d.opts.Writer} {
		if s, ok := part.(Sweeper); ok {
			due, err := s.Sweep(ctx)
			next, errs = earlier(next, due), append(errs, err)
		}
	}
	if err := errors.Join(append(errs, d.Unguard(ctx))...); err != nil {
		return next, err
	}
	return earlier(next, d.sweepFlows(ctx)), nil
}

// sweepFlows looks for stale flows if that is due, and returns when it is next.
func (d *Dataplane) sweepFlows(ctx context.Context) (next time.Time) {
	now := time.Now()
	switch {
	case d.opts.FlowPeriod <= 0:
	case d.flowsDue.IsZero(): // a resync has just looked
		d.flowsDue = now.Add(d.opts.FlowPeriod)
	case !now.Before(d.flowsDue):
		d.flowsDue = now.Add(d.opts.FlowPeriod)
		d.stale.all = true
	}
	if d.deleteStale(ctx); d.stale.empty() {
		return d.flowsDue
	}
	return earlier(d.flowsDue, d.nextLook)
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
