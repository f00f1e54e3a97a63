package splice

import (
	"context"
	"slices"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// hedgedDial is an attempt that goes on while another endpoint is dialled, which then is the current attempt. The one
// that connects first becomes the current one, and the other is given up.
type hedgedDial struct {
	dial
	attempt record.Attempt // the attempts of the connection have it once it has ended
	quota   *quota.Client  // has the descriptor of one more socket
}

// lostRace is the error that its lease gets when another endpoint connected first. One that had its chance before the
// other began is as good as not there.
func (h *hedgedDial) lostRace(chance, now time.Duration) error {
	if now-h.began < chance {
		return context.Canceled
	}
	return errLostRace
}

// hedgeAt is when another endpoint is to be dialled as well; negative: never.
func (d *dialler) hedgeAt(e *entry) time.Duration {
	after := e.plan.policy.HedgeAfter
	if after <= 0 || !d.dialing || d.noHedge || d.hedged != nil || d.lookupPending() {
		return -1
	}
	return d.current.began + after
}

// hedge begins an attempt at another endpoint if the one that is dialled has not answered for so long. False: there is
// none. A client that is bound to an endpoint stays there: to pick another would bind it to that.
func (d *dialler) hedge(e *entry, client *quota.Client, now time.Duration) bool {
	at := d.hedgeAt(e)
	if at < 0 || now < at {
		return false
	}
	d.noHedge = true
	if d.affinity != "" || !d.retry.another(len(e.plan.policy.ConnectTimeouts)) || !client.Take(quota.Descriptors, 1) {
		return false
	}
	if !d.pickHedged(e, client) {
		client.Give(quota.Descriptors, 1)
		return false
	}
	return true
}

// pickHedged begins an attempt at another endpoint than those that were tried in this round, besides the current one.
// False: there is none, or no budget for it.
func (d *dialler) pickHedged(e *entry, client *quota.Client) bool {
	at, picker := d.attempt(), e.picker()
	if !picker.MayRetry(&e.plan.policy) {
		return false
	}
	l, ok := picker.Pick(e.clientAddr(), append(slices.Clip(d.retry.excluded()), at.Endpoint), &e.plan.policy)
	if !ok {
		picker.Retried()
		return false
	}
	d.hedged = &hedgedDial{dial: d.current, attempt: *at, quota: client}
	*at = record.Attempt{Endpoint: l.Endpoint, Times: 1, Hedge: true}
	d.current = dial{lease: lease{l.State}, number: 1 - d.current.number, began: d.current.began, paid: true}
	e.stage.dial()
	return true
}

// underWay returns the attempt under way with that number.
func (d *dialler) underWay(n Dial) *record.Attempt {
	if h := d.hedged; h != nil && h.number == n {
		return &h.attempt
	}
	return d.attempt()
}

// turnTo makes that attempt the current one.
func (d *dialler) turnTo(n Dial) {
	h, at := d.hedged, d.attempt()
	if h == nil || h.number != n {
		return
	}
	h.attempt, *at = *at, h.attempt
	h.dial, d.current = d.current, h.dial
}

// oneFailed ends the current attempt of two: the other goes on.
func (d *dialler) oneFailed(e *entry, err error, lack Shortage, now time.Duration) step {
	d.turnTo(d.hedged.number)
	reported := err
	if lack != Enough {
		reported = context.Canceled
		d.hedged.payBack(e)
	}
	if d.noHedge = lack == NoResources; !d.noHedge { // else it was not dialled, and others cannot be now
		d.failedAt(d.hedged.attempt.Endpoint, err)
	}
	d.dropHedged(e, err, reported, now)
	return step{kind: stepKeepDialing}
}

// dropHedged ends the other attempt. The lease may get another error than the record.
func (d *dialler) dropHedged(e *entry, err, reported error, now time.Duration) {
	h, won := d.hedged, *d.attempt()
	took := now - h.began
	d.hedged = nil
	h.attempt.Ejected = h.lease.dialled(reported, took)
	e.attempted(h.attempt, err.Error(), took)
	*d.attempt() = h.attempt
	d.attempts.failed(err.Error(), took)
	d.attempts = append(d.attempts, won)
	h.quota.Give(quota.Descriptors, 1)
}
