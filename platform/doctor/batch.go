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

// batch is facts that are collected at the same time, each within a limit.
type batch struct {
	ctx    context.Context
	end    context.CancelFunc
	limit  time.Duration
	active sync.WaitGroup
}

func begin(ctx context.Context, limit time.Duration) *batch {
	ctx, end := context.WithTimeout(ctx, limit)
	return &batch{ctx: ctx, end: end, limit: limit}
}

func (b *batch) wait() {
	b.active.Wait()
	b.end()
}

// gather sets a fact from a function, or after the limit to an error that names it. The function may go on: calls of
// the system cannot be ended.
func gather[T any](b *batch, what string, to *Fact[T], from func(context.Context) (T, error)) {
	done := make(chan Fact[T], 1)
	go func() {
		value, err := from(b.ctx)
		done <- Fact[T]{value, err}
	}()
	b.active.Go(func() {
		select {
		case *to = <-done:
		case <-b.ctx.Done():
			select { // it may have noticed the limit itself, and know more
			case *to = <-done:
			case <-time.After(grace):
				to.Err = fmt.Errorf("%s did not answer within %s", what, b.limit)
			}
		}
	})
}

// grace is how long a function may take to return after the limit.
const grace = 50 * time.Millisecond
