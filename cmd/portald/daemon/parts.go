package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// part is a part of the daemon. Its constructor starts nothing.
type part interface {
	// start starts the part's goroutines. If one fails, failed is called with its error.
	start(failed context.CancelCauseFunc)
	// stop stops them and waits for their end.
	stop() error
}

// stage is a group of goroutines that stop together. It implements part.
type stage struct {
	runs   []func(context.Context) error
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error // guarded by mu
}

func newStage(runs ...func(context.Context) error) *stage { return &stage{runs: runs} }

func (s *stage) start(failed context.CancelCauseFunc) {
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

func (s *stage) stop() error {
	s.cancel()
	s.wg.Wait()
	return errors.Join(s.errs...)
}

// runParts starts parts in order, and stops them in reverse when ctx ends or one fails; before that it calls stopping.
// It calls started when all have started.
func runParts(ctx context.Context, parts []part, started, stopping func()) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	for _, p := range parts {
		p.start(failed)
	}
	started()
	<-ctx.Done()
	stopping()
	var errs []error
	for _, p := range slices.Backward(parts) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// stopTimeout bounds each step of changing rules while the daemon stops.
const stopTimeout = 20 * time.Second

func withTimeout(step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return step(ctx)
}

// pause waits, until ctx ends at most.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
