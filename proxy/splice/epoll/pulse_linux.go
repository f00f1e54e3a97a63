package epoll

import (
	"sync/atomic"
	"time"
)

// pulse is what a loop was asked, to see whether it turns: an idle loop sleeps without a timer, so it is woken by who
// wants to know, and by nobody else.
type pulse struct{ owes atomic.Int64 } // on the loops' clock, since when it owes an answer; 0: it does not

// Silent asks every event loop to turn, and returns for how long the slowest has owed the answer to an earlier call: some
// moments at most, unless it hangs. It does not wait for this call's answers. 0 once Run has ended.
func (e *engine) Silent() (longest time.Duration) {
	now := e.core.Now()
	for _, l := range e.loops {
		if l.pulse.owes.CompareAndSwap(0, int64(now)) {
			answer := func() { l.pulse.owes.Store(0) }
			if !l.do(answer) {
				answer()
			}
		} else if since := l.pulse.owes.Load(); since > 0 {
			longest = max(longest, now-time.Duration(since))
		}
	}
	return longest
}
