package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
)

// Stopwatch is a Dataplane and its Sweeper, and measures how long the call under way has run: one that hangs blocks the
// reconcile loop, and every change with it.
type Stopwatch struct {
	Dataplane
	Sweeper
	began atomic.Pointer[time.Time] // of the call under way; nil: there is none
}

// Running returns how long the call under way has run; 0 if there is none. Safe for concurrent use.
func (s *Stopwatch) Running() time.Duration {
	if began := s.began.Load(); began != nil {
		return time.Since(*began)
	}
	return 0
}

// start begins to measure, until stop.
func (s *Stopwatch) start() (stop func()) {
	now := time.Now()
	s.began.Store(&now)
	return func() { s.began.Store(nil) }
}

// Sync implements Dataplane.
func (s *Stopwatch) Sync(ctx context.Context, changes []service.Change) error {
	defer s.start()()
	return s.Dataplane.Sync(ctx, changes)
}

// Resync implements Dataplane.
func (s *Stopwatch) Resync(ctx context.Context, ports []*service.Port) error {
	defer s.start()()
	return s.Dataplane.Resync(ctx, ports)
}

// Audit implements Dataplane.
func (s *Stopwatch) Audit(ctx context.Context) error {
	defer s.start()()
	return s.Dataplane.Audit(ctx)
}

// Sweep implements Sweeper.
func (s *Stopwatch) Sweep(ctx context.Context) (next time.Time, err error) {
	defer s.start()()
	return s.Sweeper.Sweep(ctx)
}
