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

// failed notes a failure, and returns when to try again.
func (r *retry) failed(err error) time.Time {
	r.err = err
	r.wait = min(max(2*r.wait, firstRetry), lastRetry)
	r.next = time.Now().Add(r.wait)
	return r.next
}

func (r *retry) waits(now time.Time) bool { return now.Before(r.next) }
