// Package backoff has the pauses between attempts: waits that end with a context, and pauses that double.
//
//	pause := backoff.Pause{First: time.Second, Last: time.Minute}
//	for try() != nil {
//		if err := backoff.Sleep(ctx, pause.Next()); err != nil {
//			return err // the context's cause
//		}
//	}
package backoff

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends: then it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Pause doubles from First to Last, and begins with First again after Reset. The zero value never pauses.
type Pause struct {
	First, Last time.Duration
	next        time.Duration
}

// Next returns how long to wait before the next attempt.
func (p *Pause) Next() time.Duration {
	p.next = min(max(2*p.next, p.First), p.Last)
	return p.next
}

// Reset is called after a success.
func (p *Pause) Reset() { p.next = 0 }

// After returns the pause after n attempts that failed, at least one.
func (p Pause) After(n int) (out time.Duration) {
	p.Reset()
	for range max(n, 1) {
		if out = p.Next(); out == p.Last {
			break
		}
	}
	return out
}
