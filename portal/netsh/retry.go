package netsh

import "time"

// The wait before something that failed is tried again doubles from the first to the last.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// retry is when something that failed is tried again. The zero value has not failed.
type retry struct {
	err  error
	wait time.Duration
	next time.Time
}

// failed notes a failure.
func (r *retry) failed(err error) {
	r.err = err
	r.wait = min(max(2*r.wait, firstRetry), lastRetry)
	r.next = time.Now().Add(r.wait)
}

// waits tells whether it is too early to try again.
func (r *retry) waits() bool { return time.Now().Before(r.next) }
