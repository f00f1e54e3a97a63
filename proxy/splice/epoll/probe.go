package epoll

import (
	"sync/atomic"
	"time"
)

// probe is a call that a loop has to answer, which shows that it does not hang: an idle loop sleeps without a timer.
type probe struct {
	pending atomic.Int64 // since when, on the core's clock; 0: none is
}

// silent makes the call by do unless one is pending, and returns for how long that is.
func (p *probe) silent(now time.Duration, do func(func()) bool) time.Duration {
	if p.pending.CompareAndSwap(0, int64(now)) {
		answer := func() { p.pending.Store(0) }
		if !do(answer) {
			answer()
		}
		return 0
	}
	if since := p.pending.Load(); since > 0 {
		return now - time.Duration(since)
	}
	return 0
}
