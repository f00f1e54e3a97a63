package splice

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// The pause after a round of dials that all failed doubles from the first to the last; a quarter of it is left to
// chance, so that those who were refused together do not come back together.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// retries is what a connection remembers of dials that failed. A round dials each endpoint once, and no more of them
// than there are timeouts; one that only was slow may have another, longer try.
type retries struct {
	tried   []netip.AddrPort // not to be dialled again in this round
	refused []netip.AddrPort // of those, the ones that did not have to be waited for
	round   int              // dials of this round that failed
	silent  int              // dials without an answer, of all rounds
	pause   time.Duration    // before this round
	waiting bool             // for the next round
}

// left tells whether there may be another dial in this round.
func (r *retries) left(timeouts int) bool {
	return r == nil || r.round < timeouts && r.silent < timeouts
}

// place is that of the next dial in this round.
func (r *retries) place() int {
	if r == nil {
		return 0
	}
	return r.round
}

// without are those that are not to be dialled now.
func (r *retries) without() []netip.AddrPort {
	if r == nil {
		return nil
	}
	return r.tried
}

func (r *retries) failed(endpoint netip.AddrPort, silent bool) {
	r.round++
	r.tried = append(r.tried, endpoint)
	if silent {
		r.silent++
	} else {
		r.refused = append(r.refused, endpoint)
	}
}

// slow lets those be dialled again in this round that did not answer in time, false when there is none.
func (r *retries) slow() bool {
	if r == nil {
		return false
	}
	some := len(r.tried) > len(r.refused)
	r.tried = append(r.tried[:0], r.refused...)
	return some
}

// next begins another round, in which those not tried yet come first if there are any, and returns how long to wait for
// it.
func (r *retries) next(allTried bool) time.Duration {
	r.round = 0
	if allTried {
		r.tried, r.refused = r.tried[:0], r.refused[:0]
	}
	r.pause = min(max(2*r.pause, firstRetry), lastRetry)
	return r.pause - rand.N(r.pause/4)
}

// anew begins over, with a dial at once: endpoints have changed. What had no answer so far still counts.
func (r *retries) anew() {
	r.tried, r.refused, r.round, r.pause = r.tried[:0], r.refused[:0], 0, 0
}

// sum is the time there is for all dials of a connection.
func sum(timeouts []time.Duration) (all time.Duration) {
	for _, t := range timeouts {
		all += t
	}
	return all
}

// maxAttempts bounds the attempts of a record that failed. The last of so many stands for all that came after it.
const maxAttempts = 32

// failed ends the last attempt. One that failed at once like an earlier one of that endpoint is added to it.
func (r *Record) failed(why string, took time.Duration) {
	at := len(r.Attempts) - 1
	last := r.Attempts[at]
	last.Err, last.Took = why, took
	same := slices.IndexFunc(r.Attempts[:at], func(a Attempt) bool {
		return a.Endpoint == last.Endpoint && a.Err == why && why != errTimeout.Error()
	})
	if same < 0 && at == maxAttempts {
		same = at - 1
	}
	if same < 0 {
		r.Attempts[at] = last
		return
	}
	last.Times += r.Attempts[same].Times
	last.Took += r.Attempts[same].Took
	r.Attempts[same] = last
	r.Attempts = r.Attempts[:at]
}
