package splice

import (
	"sync"
	"sync/atomic"
	"time"
)

// pulse is what a loop was asked, to see whether it turns: an idle loop sleeps without a timer, so it is woken by who
// wants to know, and by nobody else.
type pulse struct{ owes atomic.Int64 } // on the loops' clock, since when it owes an answer; 0: it does not

// pulses are asked for by any goroutine, until the loops end.
type pulses struct {
	mu    sync.Mutex
	ended bool
}

// Silent asks every event loop to turn, and returns for how long the slowest has owed the answer to an earlier call: some
// moments at most, unless it hangs. It does not wait for this call's answers. 0 once Run has ended.
func (e *Engine) Silent() (longest time.Duration) {
	e.pulses.mu.Lock()
	defer e.pulses.mu.Unlock()
	if e.pulses.ended {
		return 0
	}
	now := time.Since(e.start)
	for _, l := range e.loops {
		if l.pulse.owes.CompareAndSwap(0, int64(now)) {
			l.do(func() { l.pulse.owes.Store(0) })
		} else if since := l.pulse.owes.Load(); since > 0 {
			longest = max(longest, now-time.Duration(since))
		}
	}
	return longest
}

// end has no loop asked any more: their descriptors are about to be closed.
func (p *pulses) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}
