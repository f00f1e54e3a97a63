package goroutine

import "time"

// block notes that the destination takes no more bytes.
func (d *direction) block() { d.blocked.Begin(d.c.e.core.Now()) }

// unblock notes that it takes some again.
func (d *direction) unblock() {
	if d.blocked.Blocked() {
		d.blocked.End(d.c.e.core.Now())
	}
}

// writer writes to the destination by package net, which does not tell whether it had to wait.
type writer struct{ d *direction }

// blockedAfter is how long a write takes that had to wait: copying its bytes takes microseconds.
const blockedAfter = time.Millisecond

// Write implements io.Writer.
func (w writer) Write(b []byte) (n int, err error) {
	at := w.d.c.e.core.Now()
	w.d.blocked.Begin(at)
	n, err = w.d.to.tcp.Write(b)
	now := w.d.c.e.core.Now()
	if now-at < blockedAfter {
		now = at
	}
	w.d.blocked.End(now)
	return n, err
}
