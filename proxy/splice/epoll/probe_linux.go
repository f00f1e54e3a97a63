package epoll

import (
	"sync/atomic"
	"time"
)

// probe is a call that a loop has to answer, which shows that it does not hang: an idle loop sleeps without a timer.
type probe struct {
	pending atomic.Int64 // since when, on the core's clock; 0: none is
}

// Silent implements splice.Engine.
func (e *engine) Silent() (longest time.Duration) {
	now := e.core.Now()
	for _, l := range e.loops {
		if l.probe.pending.CompareAndSwap(0, int64(now)) {
			answer := func() { l.probe.pending.Store(0) }
			if !l.do(answer) {
				answer()
			}
		} else if since := l.probe.pending.Load(); since > 0 {
			longest = max(longest, now-time.Duration(since))
		}
	}
	return longest
}
