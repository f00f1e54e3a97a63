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
	errTimeout  = error(timeout("timeout")) // no answer in its time
	errNoAnswer = errors.New("no answer")   // the endpoint fell silent after it had been reached
	errGivenUp  = errors.New("given up")    // the connection ended before the answer
	errOutrun   = error(timeout(record.Overtaken))
	errRemoved  = errors.New("endpoint removed") // it was taken away before it was dialled
	errLoop     = errors.New("the endpoint is an address that this proxy itself listens at")
)

// timeout is told from other failures by those who know nothing of dials, as net.Error is.
type timeout string

func (t timeout) Error() string { return string(t) }

// Timeout tells that it is one.
func (timeout) Timeout() bool { return true }

// Shortage is what this host lacked for a dial. The endpoint is not to blame.
type Shortage uint8

// The shortages.
const (
	Enough      Shortage = iota // none: it is the endpoint that failed
	NoPort                      // no local port is left towards this endpoint: another may be reached
	NoResources                 // every dial would fail alike
)

// next begins another attempt, or ends the round if it has none left.
func (f *life) next(now time.Duration) step {
	if !f.retry.more(len(f.plan.policy.ConnectTimeouts)) || !f.mayRetry() {
		return f.exhausted(false, now)
	}
	if !f.pick() {
		f.payBack()
		return f.exhausted(true, now)
	}
	f.dial, f.lone = 0, false
	return f.try(now)
}

// try begins the attempt that was picked.
func (f *life) try(now time.Duration) step {
	endpoint := f.current().Endpoint
	f.dialled, f.dialing = now, true
	f.stage.enter(dialing)
	if f.front.core.listensAt(endpoint, f.front.name.Protocol) {
		return f.failed(errLoop, Enough, now)
	}
	o, client, to := &f.front.core.opts, f.clientAddr(), endpoint.Addr()
	if f.plan.policy.ClientAddress != service.AddressTransparent {
		return f.dialStep(false)
	}
	by := int(f.cameBy)
	asClient, known := o.ReturnsKnown(client, to, by)
	if !known {
		return f.ask(returns, func() bool { return o.Returns(client, to, by) })
	}
	return f.dialStep(asClient)
}

// dialStep returns the step that makes the current attempt.
func (f *life) dialStep(asClient bool) step {
	s := step{kind: stepDial, endpoint: f.current().Endpoint}
	if asClient {
		s.as = f.clientAddr()
	}
	return s
}

// current is the attempt under way, or the last one.
func (f *life) current() *record.Attempt { return &f.attempts[len(f.attempts)-1] }

// pick begins an attempt at an endpoint that was not tried in this round. When all were, those that only did not
// answer in time may have another, longer try; those that refused may not.
func (f *life) pick() bool {
	client, picker := f.clientAddr(), f.front.pickers[f.scope]
	l, ok := f.retry.takePicked()
	if !ok {
		l, ok = picker.Pick(client, f.retry.excluded(), &f.plan.policy)
	}
	if !ok && f.retry.readmitSlow() {
		l, ok = picker.Pick(client, f.retry.excluded(), &f.plan.policy)
	}
	f.lease, f.affinity, f.again = lease{l.State}, l.Affinity, l.Again
	f.ejected = uint16(min(l.Ejected, math.MaxUint16))
	if ok {
		f.attempts = append(f.attempts, record.Attempt{Endpoint: l.Endpoint, Times: 1, Probe: l.Probe})
		f.stage.dial()
	}
	return ok
}

// exhausted ends a round of dials that all failed. allTried: no endpoint is left that was not dialled in it.
func (f *life) exhausted(allTried bool, now time.Duration) step {
	timeouts := f.plan.policy.ConnectTimeouts
	end := f.began + sum(timeouts)
	switch until := f.patience(); {
	case now < until:
		return f.holdOut(allTried, until, now)
	case len(f.attempts) == 0:
		return step{kind: stepRefuse, outcome: record.OutcomeNoEndpoint}
	case !f.rounds, len(timeouts) == 1, f.retry.timedOut >= len(timeouts), now >= end:
		return step{kind: stepRefuse, outcome: record.OutcomeDialFailed}
	}
	return step{kind: stepWait, until: min(now+f.retry.nextRound(allTried), end)}
}

// refreshed tells whether the front has a newer plan than dials went by, and if so restarts the rounds.
func (f *life) refreshed() bool {
	plan := f.front.present()
	if plan == f.seen {
		return false
	}
	f.seen = plan
	if f.retry != nil {
		f.retry.restart()
	}
	return true
}

// failed ends the attempt under way, or the one that had been connected, and begins another unless resources are
// exhausted, or another dial is still under way.
func (f *life) failed(err error, lack Shortage, now time.Duration) step {
	if f.rival != nil {
		return f.oneFailed(err, lack, now)
	}
	ejected := false
	switch {
	case !f.dialing:
		ejected = f.lease.ended(f.clientAddr(), err, -1) // what was sent is lost
		f.attempts = slices.Clone(f.attempts)            // for those that look at won
	case lack != Enough, err == errRemoved:
		f.lease.dialled(context.Canceled, now-f.dialled)
		f.payBack()
	default:
		ejected = f.lease.dialled(err, now-f.dialled)
	}
	f.dialing = false
	f.current().Ejected = ejected
	f.failedAt(f.current().Endpoint, err)
	f.attempted(*f.current(), err.Error(), now-f.dialled)
	f.attempts.failed(err.Error(), now-f.dialled)
	switch {
	case lack == NoResources:
		return step{kind: stepRefuse, outcome: record.OutcomeResources}
	case f.again && f.rounds && !ejected && err != errTimeout && f.retry.more(len(f.plan.policy.ConnectTimeouts)):
		return step{kind: stepWait, until: now + firstRetry} // it refused at once, and may be back soon
	}
	return f.next(now)
}

// mayRetry tells whether there may be another dial by the budget of the service port, if one has failed.
func (f *life) mayRetry() bool {
	f.paid = false
	return f.retry == nil || f.pay()
}

// pay takes a dial out of the budget of the service port. False: there is nothing left.
func (f *life) pay() bool {
	f.paid = f.front.pickers[f.scope].MayRetry(&f.plan.policy)
	return f.paid
}

// payBack is for a dial that did not come to be, or that worked.
func (f *life) payBack() {
	if f.paid {
		f.front.pickers[f.scope].Retried()
		f.paid = false
	}
}

// failedAt keeps that endpoint from being dialled again in this round.
func (f *life) failedAt(endpoint netip.AddrPort, err error) {
	if f.retry == nil {
		f.retry = &retries{}
	}
	f.retry.failed(endpoint, err == errTimeout)
}

// dialEnds is when the attempt under way times out.
func (f *life) dialEnds() time.Duration {
	at := f.retry.position()
	if f.rival != nil { // which comes before it
		at++
	}
	return f.dialled + f.plan.policy.ConnectTimeouts[at]
}

// connected ends the attempt under way: its endpoint is reached. Another that is under way was too slow.
func (f *life) connected(now time.Duration) {
	if f.rival != nil {
		f.asked = noQuestion
		f.dropRival(errOutrun, f.rival.outrun(f.plan.policy.HedgeAfter, now), now)
	}
	f.dialing = false
	f.payBack()
	a := f.current()
	a.Took = now - f.dialled
	f.lease.dialled(nil, a.Took)
	f.attempted(*a, "", a.Took)
	f.connect = now - f.began
	f.unqueue(now)
	f.won.Store(a)
	f.stage.enter(open)
	f.endpoint.Store(f.front.endpoint(f.plan, a.Endpoint))
}
