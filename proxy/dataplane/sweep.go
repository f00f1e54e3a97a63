package dataplane

import (
	"context"
	"errors"
	"time"
)

// Sweeper is a Carrier or a Writer with something that ends without a change: after a time, or once it is unused.
type Sweeper interface {
	// Sweep ends what is due, and returns when the next sweep is; zero: not before the next change.
	Sweep(ctx context.Context) (next time.Time, err error)
}

// Sweep has carriers and the writer end what is due, and deletes stale flows: flows that it was too early to scan for,
// and each Options.FlowPeriod all, since a flow that began while rules changed may follow the old ones. It returns when
// the next sweep is due; zero: not before the next change. After an error only Resync may follow.
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
	return earlier(next, d.flows.sweep(ctx)), nil
}
