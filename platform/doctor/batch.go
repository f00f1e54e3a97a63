package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The times of a run: it ends within the sum.
const (
	daemonLimit = 800 * time.Millisecond // of the daemon
	systemLimit = 2 * time.Second        // of each look at the system
	interval    = time.Second            // between two looks at what may change
)

// looks are facts that are collected at a time, each within a limit.
type looks struct {
	ctx    context.Context
	end    context.CancelFunc
	limit  time.Duration
	active sync.WaitGroup
}

func begin(ctx context.Context, limit time.Duration) *looks {
	ctx, end := context.WithTimeout(ctx, limit)
	return &looks{ctx: ctx, end: end, limit: limit}
}

func (l *looks) wait() {
	l.active.Wait()
	l.end()
}

// gather sets a fact from a function, or after the limit to an error that names it. The function may go on: calls of
// the system cannot be ended.
func gather[T any](l *looks, what string, to *Fact[T], from func(context.Context) (T, error)) {
	done := make(chan Fact[T], 1)
	go func() {
		value, err := from(l.ctx)
		done <- Fact[T]{value, err}
	}()
	l.active.Go(func() {
		select {
		case *to = <-done:
		case <-l.ctx.Done():
			select { // it may have noticed the limit itself, and know more
			case *to = <-done:
			case <-time.After(grace):
				to.Err = fmt.Errorf("%s did not answer within %s", what, l.limit)
			}
		}
	})
}

// grace is how long a function may take to return after the limit.
const grace = 50 * time.Millisecond
