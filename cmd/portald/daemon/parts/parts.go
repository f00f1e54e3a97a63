// Package parts starts the parts of a daemon in order and stops them in reverse, each once the one after it has ended.
package parts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Part is a part of a daemon. Its constructor starts nothing.
type Part interface {
	// Start starts the part's goroutines. If one fails, failed is called with its error.
	Start(failed context.CancelCauseFunc)
	// Stop stops them and waits for their end.
	Stop() error
}

// Stage is a group of goroutines that stop together. It implements Part.
type Stage struct {
	runs   []func(context.Context) error
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error // guarded by mu
}

// NewStage returns a Stage of functions that run until their ctx ends. One that fails ends the daemon.
func NewStage(runs ...func(context.Context) error) *Stage { return &Stage{runs: runs} }

// Start implements Part.
func (s *Stage) Start(failed context.CancelCauseFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, run := range s.runs {
		s.wg.Go(func() {
			if err := run(ctx); err != nil {
				s.mu.Lock()
				s.errs = append(s.errs, err)
				s.mu.Unlock()
				failed(err)
			}
		})
	}
}

// Cancel has the functions end, and does not wait for that.
func (s *Stage) Cancel() { s.cancel() }

// Stop implements Part.
func (s *Stage) Stop() error {
	s.cancel()
	s.wg.Wait()
	return errors.Join(s.errs...)
}

// Run starts all in order, and stops them in reverse when ctx ends or one fails; before that it calls stopping. It
// calls started when all have started.
func Run(ctx context.Context, parts []Part, started, stopping func()) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	for _, p := range parts {
		p.Start(failed)
	}
	started()
	<-ctx.Done()
	stopping()
	var errs []error
	for _, p := range slices.Backward(parts) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// stopTimeout bounds each step of changing rules while the daemon stops.
const stopTimeout = 20 * time.Second

// WithTimeout calls a step with as much time as it has while the daemon stops.
func WithTimeout(step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return step(ctx)
}
