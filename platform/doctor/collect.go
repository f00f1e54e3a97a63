package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The times of a run: it ends within the sum.
const (
	askLimit  = 800 * time.Millisecond // of the daemon
	lookLimit = 2 * time.Second        // of each look at the system
	interval  = time.Second            // between two looks at what may change
)

// Source asks a running portald. Each returns an error if none runs, one that wraps ErrDenied if it may not be asked.
type Source struct {
	Daemon   func(context.Context) (Daemon, error)
	Services func(context.Context) (Services, error)
}

// Collect looks at the system, at all at a time. What does not answer within its limit is not known. It asks the daemon
// first, since what it says tells where to look.
func Collect(ctx context.Context, from Source) *Facts {
	f := &Facts{}
	first := begin(ctx, askLimit)
	gather(first, "portald", &f.Daemon, from.Daemon)
	gather(first, "portald, asked for Services,", &f.Services, from.Services)
	first.wait()

	then := begin(ctx, lookLimit)
	f.look(then)
	then.wait()
	return f
}

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

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
