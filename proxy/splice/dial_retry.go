package splice

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/record"
)

// The pause after a round of dials that all failed doubles from the first to the last; a quarter of it is left to
// chance, so that clients that were refused together do not come back together.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond

	lastWaitingRetry = 2 * time.Second // of connections that wait for an endpoint
)

// retries are the failed dials of a connection. A round dials each endpoint once, and no more of them than the policy
// has timeouts; one that timed out may be dialled again in it, for longer.
type retries struct {
	tried    []netip.AddrPort // not to be dialled again in this round
	refused  []netip.AddrPort // of tried, without those that timed out
	round    int              // dials of this round that failed
	timedOut int              // dials of all rounds that timed out
	pause    time.Duration    // before this round
	picked   *Lease           // for the next dial; nil: it picks
}

// more tells whether there may be another dial in this round.
func (r *retries) more(timeouts int) bool {
	return r == nil || r.round < timeouts && r.timedOut < timeouts
}

// another tells whether there may be a dial in this round beside the one under way, which may time out.
func (r *retries) another(timeouts int) bool {
	return r == nil && timeouts > 1 || r != nil && r.round+1 < timeouts && r.timedOut+1 < timeouts
}

// position is the position of the next dial in this round, from 0: the index of its timeout.
func (r *retries) position() int {
	if r == nil {
		return 0
	}
	return r.round
}

// excluded are the endpoints that are not to be dialled now.
func (r *retries) excluded() []netip.AddrPort {
	if r == nil {
		return nil
	}
	return r.tried
}

func (r *retries) failed(endpoint netip.AddrPort, timedOut bool) {
	r.round++
	r.tried = append(r.tried, endpoint)
	if timedOut {
		r.timedOut++
	} else {
		r.refused = append(r.refused, endpoint)
	}
}

// readmitSlow has those that timed out dialled again in this round. False: there are none.
func (r *retries) readmitSlow() bool {
	if r == nil {
		return false
	}
	some := len(r.tried) > len(r.refused)
	r.tried = append(r.tried[:0], r.refused...)
	return some
}

// nextRound begins another round and returns how long to wait for it. Unless all were tried, the round goes on with
// those that were not.
func (r *retries) nextRound(allTried bool) time.Duration { return r.nextWithin(lastRetry, allTried) }

func (r *retries) nextWithin(last time.Duration, allTried bool) time.Duration {
	r.round = 0
	if allTried {
		r.tried, r.refused = r.tried[:0], r.refused[:0]
	}
	r.pause = min(max(2*r.pause, firstRetry), last)
	return r.pause - rand.N(r.pause/4)
}

// again is nextRound where dials go on however many have timed out. That may be for long, and for many connections.
func (r *retries) again(allTried bool, timeouts int) time.Duration {
	if r.timedOut >= timeouts {
		r.timedOut, allTried = 0, true
	}
	return r.nextWithin(lastWaitingRetry, allTried)
}

// restart is for endpoints that have changed: they are dialled at once. The dials that timed out so far still count.
func (r *retries) restart() {
	r.tried, r.refused, r.round, r.pause = r.tried[:0], r.refused[:0], 0, 0
}

// sum is how long all dials of a connection may take.
func sum(timeouts []time.Duration) (all time.Duration) {
	for _, t := range timeouts {
		all += t
	}
	return all
}

// maxAttempts bounds the failed attempts of a record. The last one stands for all that came after it.
const maxAttempts = 32

// attempts are the dials of a connection, as in its record.
type attempts []record.Attempt

// failed ends the last attempt. If an earlier one of that endpoint failed alike, and not by a timeout, it is added to
// that.
func (all *attempts) failed(why string, took time.Duration) {
	list := *all
	at := len(list) - 1
	last := list[at]
	last.Err, last.Took = why, took
	same := slices.IndexFunc(list[:at], func(a record.Attempt) bool {
		return a.Endpoint == last.Endpoint && a.Err == why && why != ErrTimeout.Error() && a.Hedge == last.Hedge
	})
	if same < 0 && at == maxAttempts {
		same = at - 1
	}
	if same < 0 {
		list[at] = last
		return
	}
	last.Times += list[same].Times
	last.Probe, last.Ejected = last.Probe || list[same].Probe, last.Ejected || list[same].Ejected
	last.Took += list[same].Took
	list[same] = last
	*all = list[:at]
}

// takePicked returns what pickAnother has picked, false if there is nothing.
func (r *retries) takePicked() (l Lease, ok bool) {
	if r == nil || r.picked == nil {
		return Lease{}, false
	}
	l, r.picked = *r.picked, nil
	return l, true
}

// giveBackPicked is for a dial that did not come to be.
func (r *retries) giveBackPicked() {
	if l, ok := r.takePicked(); ok {
		spare := lease{l.State}
		spare.dialled(context.Canceled, 0)
	}
}
