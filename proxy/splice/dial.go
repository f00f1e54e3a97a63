package splice

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Errors of attempts that the kernel has none for.
var (
	ErrTimeout  = error(timeout(record.TimedOut)) // no answer in its time
	errNoAnswer = errors.New("no answer")         // the endpoint fell silent after it had been reached
	errGivenUp  = errors.New("given up")          // the connection ended before the answer
	errLostRace = error(timeout(record.Overtaken))
	errRemoved  = errors.New("endpoint removed") // it was taken away before it was dialled
	errLoop     = errors.New("the endpoint is an address that this proxy itself listens at")
)

// timeout is told from other failures by those who know nothing of dials, as net.Error is.
type timeout string

func (t timeout) Error() string { return string(t) }

// Timeout tells that it is one.
func (timeout) Timeout() bool { return true }

// Shortage names a resource that this host lacked for a dial. The endpoint is not to blame.
type Shortage uint8

// The shortages.
const (
	Enough      Shortage = iota // none: it is the endpoint that failed
	NoPort                      // no local port is left towards this endpoint: another may be reached
	NoResources                 // every dial would fail alike
)

// dialler dials endpoints, one after the other, until one is reached. While one does not answer it may dial another
// beside it: see hedged.
type dialler struct {
	dialing  bool              // the current attempt has no result yet
	removed  bool              // its endpoint was taken away meanwhile
	again    bool              // its endpoint is the client's own, and may be dialled once more
	noHedge  bool              // no other endpoint is to be dialled beside it
	repeats  bool              // when all endpoints have failed they are dialled again after a pause
	lookup   hostLookup        // at the host, that has no result yet
	ejected  uint16            // endpoints that were left out of the choice of it
	current  dial              // the last of attempts
	hedged   *hedgedDial       // the attempt that goes on beside the current one; nil: there is none
	retry    *retries          // nil: no dial has failed
	seen     *plan             // the newest plan when dials last began: a newer one may bring endpoints
	attempts attempts          // as in the record
	first    [1]record.Attempt // room for the usual single one
	affinity string
}

// dial is an attempt as long as it is under way. The lease is the connection's, once it has worked.
type dial struct {
	lease  lease
	began  time.Duration
	number Dial
	paid   bool // it was taken out of the budget
}

// next begins another attempt, or ends the round if it has none left.
func (d *dialler) next(e *entry, now time.Duration) step {
	if !d.retry.more(len(e.plan.policy.ConnectTimeouts)) || !d.mayRetry(e) {
		return d.exhausted(e, false, now)
	}
	if !d.pick(e) {
		d.current.payBack(e)
		return d.exhausted(e, true, now)
	}
	d.current.number, d.noHedge = 0, false
	return d.try(e, now)
}

// try begins the attempt that was picked.
func (d *dialler) try(e *entry, now time.Duration) step {
	endpoint := d.attempt().Endpoint
	d.current.began, d.dialing = now, true
	e.stage.enter(dialing)
	if e.front.core.listensAt(endpoint, e.front.name.Protocol) {
		return d.failed(e, errLoop, Enough, now)
	}
	o, client, to := &e.front.core.opts, e.clientAddr(), endpoint.Addr()
	if e.plan.policy.ClientAddress != service.AddressTransparent {
		return d.dialStep(e, false)
	}
	by := int(e.cameBy)
	asClient, known := o.ReturnsKnown(client, to, by)
	if !known {
		d.lookup = returns
		return step{kind: stepLookup, lookup: func() bool { return o.Returns(client, to, by) }}
	}
	return d.dialStep(e, asClient)
}

// dialStep returns the step that makes the current attempt.
func (d *dialler) dialStep(e *entry, asClient bool) step {
	s := step{kind: stepDial, endpoint: d.attempt().Endpoint}
	if asClient {
		s.as = e.clientAddr()
	}
	return s
}

// attempt is the one under way, or the last one.
func (d *dialler) attempt() *record.Attempt { return &d.attempts[len(d.attempts)-1] }

// pick begins an attempt at an endpoint that was not tried in this round. When all were, those that only did not
// answer in time may have another, longer try; those that refused may not.
func (d *dialler) pick(e *entry) bool {
	client, picker := e.clientAddr(), e.picker()
	l, ok := d.retry.takePicked()
	if !ok {
		l, ok = picker.Pick(client, d.retry.excluded(), &e.plan.policy)
	}
	if !ok && d.retry.readmitSlow() {
		l, ok = picker.Pick(client, d.retry.excluded(), &e.plan.policy)
	}
	d.current.lease, d.affinity, d.again = lease{l.State}, l.Affinity, l.Again
	d.ejected = uint16(min(l.Ejected, math.MaxUint16))
	if ok {
		d.attempts = append(d.attempts, record.Attempt{Endpoint: l.Endpoint, Times: 1, Probe: l.Probe})
		e.stage.dial()
	}
	return ok
}

// exhausted ends a round of dials that all failed. allTried: no endpoint is left that was not dialled in it.
func (d *dialler) exhausted(e *entry, allTried bool, now time.Duration) step {
	timeouts := e.plan.policy.ConnectTimeouts
	end := e.began + sum(timeouts)
	switch until := e.waitsUntil(); {
	case now < until:
		return d.waitInQueue(e, allTried, until, now)
	case len(d.attempts) == 0:
		return step{kind: stepRefuse, outcome: record.OutcomeNoEndpoint}
	case !d.repeats, len(timeouts) == 1, d.retry.timedOut >= len(timeouts), now >= end:
		return step{kind: stepRefuse, outcome: record.OutcomeDialFailed}
	}
	return step{kind: stepWait, until: min(now+d.retry.nextRound(allTried), end)}
}

// refreshed tells whether the front has a newer plan than dials went by, and if so restarts the rounds.
func (d *dialler) refreshed(e *entry) bool {
	plan := e.front.present()
	if plan == d.seen {
		return false
	}
	d.seen = plan
	if d.retry != nil {
		d.retry.restart()
	}
	return true
}

// failed ends the attempt under way, or the one that had been connected, and begins another unless resources are
// exhausted, or another dial is still under way.
func (d *dialler) failed(e *entry, err error, lack Shortage, now time.Duration) step {
	if d.hedged != nil {
		return d.oneFailed(e, err, lack, now)
	}
	ejected := false
	switch {
	case !d.dialing:
		ejected = d.current.lease.ended(e.clientAddr(), err, -1) // what was sent is lost
		d.attempts = slices.Clone(d.attempts)                    // for those that look at won
	case lack != Enough, err == errRemoved:
		d.current.lease.dialled(context.Canceled, now-d.current.began)
		d.current.payBack(e)
	default:
		ejected = d.current.lease.dialled(err, now-d.current.began)
	}
	d.dialing = false
	d.attempt().Ejected = ejected
	d.failedAt(d.attempt().Endpoint, err)
	e.attempted(*d.attempt(), err.Error(), now-d.current.began)
	d.attempts.failed(err.Error(), now-d.current.began)
	switch {
	case lack == NoResources:
		return step{kind: stepRefuse, outcome: record.OutcomeResources}
	case d.again && d.repeats && !ejected && err != ErrTimeout && d.retry.more(len(e.plan.policy.ConnectTimeouts)):
		return step{kind: stepWait, until: now + firstRetry} // it refused at once, and may be back soon
	}
	return d.next(e, now)
}

// mayRetry tells whether there may be another dial by the budget of the service port, if one has failed.
func (d *dialler) mayRetry(e *entry) bool {
	d.current.paid = d.retry != nil && e.picker().MayRetry(&e.plan.policy)
	return d.retry == nil || d.current.paid
}

// payBack is for a dial that did not come to be, or that worked.
func (d *dial) payBack(e *entry) {
	if d.paid {
		e.picker().Retried()
		d.paid = false
	}
}

// failedAt keeps that endpoint from being dialled again in this round.
func (d *dialler) failedAt(endpoint netip.AddrPort, err error) {
	if d.retry == nil {
		d.retry = &retries{}
	}
	d.retry.failed(endpoint, err == ErrTimeout)
}

// dialEnds is when the attempt under way times out.
func (d *dialler) dialEnds(e *entry) time.Duration {
	at := d.retry.position()
	if d.hedged != nil { // which comes before it
		at++
	}
	return d.current.began + e.plan.policy.ConnectTimeouts[at]
}

// connected ends the attempt under way: its endpoint is reached. Another that is under way was too slow.
func (d *dialler) connected(e *entry, now time.Duration) {
	if d.hedged != nil {
		d.lookup = noLookup
		d.dropHedged(e, errLostRace, d.hedged.lostRace(e.plan.policy.HedgeAfter, now), now)
	}
	d.dialing = false
	d.current.payBack(e)
	a := d.attempt()
	a.Took = now - d.current.began
	d.current.lease.dialled(nil, a.Took)
	e.attempted(*a, "", a.Took)
	e.won.Store(a)
	e.stage.enter(open)
	e.endpoint.Store(e.front.endpoint(e.plan, a.Endpoint))
}

// pickAnother picks an endpoint that was not tried for the next dial. False: there is none.
func (d *dialler) pickAnother(e *entry) bool {
	if d.retry == nil {
		d.retry = &retries{}
	}
	tried := append(slices.Clone(d.retry.tried), d.attempt().Endpoint)
	l, ok := e.picker().Pick(e.clientAddr(), tried, &e.plan.policy)
	if ok {
		d.retry.picked = &l
	}
	return ok
}

// waitInQueue waits for endpoints to change, or, where some have failed, for another round of dials.
func (d *dialler) waitInQueue(e *entry, allTried bool, until, now time.Duration) step {
	if d.retry != nil {
		until = min(until, now+d.retry.again(allTried, len(e.plan.policy.ConnectTimeouts)))
	}
	return step{kind: stepQueue, until: until}
}
