package splice

import (
	"sync/atomic"
	"time"
)

// BlockedTime sums up how long one socket took no bytes although there were some for it. One goroutine calls Begin and
// End; a second call of either does nothing. Any goroutine reads it.
type BlockedTime struct {
	// While the socket is blocked, the time on the clock when that began is subtracted from sum, which is negative then:
	// it was not blocked for longer than the clock has run.
	sum atomic.Int64
}

// Restore begins with so much, blocked since now or not.
func (b *BlockedTime) Restore(so time.Duration, blocked bool, now time.Duration) {
	b.sum.Store(int64(so))
	if blocked {
		b.Begin(now)
	}
}

// Begin notes that the socket takes no more bytes.
func (b *BlockedTime) Begin(now time.Duration) {
	if !b.Blocked() {
		b.sum.Add(-int64(now))
	}
}

// End notes that it takes some again.
func (b *BlockedTime) End(now time.Duration) {
	if b.Blocked() {
		b.sum.Add(int64(now))
	}
}

// Blocked tells whether it takes none at this moment.
func (b *BlockedTime) Blocked() bool { return b.sum.Load() < 0 }

// Until is how long it was blocked so far.
func (b *BlockedTime) Until(now time.Duration) time.Duration {
	sum := time.Duration(b.sum.Load())
	if sum < 0 {
		return sum + now
	}
	return sum
}
