package splice

import (
	"testing"
	"time"
)

// The time is that between each Begin and its End, and goes on until now while there is no End.
func TestBlockedTime(t *testing.T) {
	var b BlockedTime
	want := func(now, total time.Duration, blocked bool) {
		t.Helper()
		if got := b.Until(now); got != total || b.Blocked() != blocked {
			t.Errorf("at %d: %d, blocked %v; want %d, %v", now, got, b.Blocked(), total, blocked)
		}
	}
	b.End(5)
	want(9, 0, false)
	b.Begin(10)
	b.Begin(12)
	want(10, 0, true)
	want(15, 5, true)
	b.End(17)
	b.End(20)
	want(30, 7, false)
	b.Begin(40)
	want(41, 8, true)
}
