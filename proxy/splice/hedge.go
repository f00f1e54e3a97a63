package splice

import (
	"context"
	"slices"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// rival is an attempt that goes on while another endpoint is dialled, which then is the current attempt of the
// connection. Whichever is answered first becomes the current one, and the other is given up.
type rival struct {
	attempt record.Attempt // the attempts of the connection have it once it has ended
	lease   lease
	dial    Dial
	dialled time.Duration
	paid    bool
	quota   *quota.Client // has the descriptor of one more socket
}

// outrun is what its lease hears when another was answered first. One that had its chance before the other began is as
// good as not there.
func (r *rival) outrun(chance, now time.Duration) error {
	if now-r.dialled < chance {
		return context.Canceled
	}
	return errOutrun
}

// HedgeAt is when to call Expired as long as dials are under way, unless one of them is answered or fails before;
// negative: never. It changes only by steps.
func (c *Conn) HedgeAt() time.Duration {
	after := c.plan.policy.HedgeAfter
	if after <= 0 || !c.dialing || c.lone || c.rival != nil || c.waitsForHost() {
		return -1
	}
	return c.dialled + after
}

// hedge dials another endpoint beside the one that has not answered for so long.
func (c *Conn) hedge(now time.Duration) Step {
	at := c.HedgeAt()
	if at < 0 || now < at {
		return Step{}
	}
	c.lone = true
	if !c.mayHedge() || !c.quota.Take(quota.Descriptors, 1) {
		return Step{}
	}
	if !c.pickRival() {
		c.quota.Give(quota.Descriptors, 1)
		return Step{}
	}
	return c.advance(c.try(now), now)
}

// mayHedge tells whether the policy has one more dial for this round, should the one under way time out. A client that
// is bound to an endpoint stays there: to pick another would bind it to that.
func (c *Conn) mayHedge() bool {
	return c.affinity == "" && c.retry.another(len(c.plan.policy.ConnectTimeouts))
}

// pickRival begins an attempt at another endpoint than those that were tried in this round; the current one becomes its
// rival. False: there is none, or no budget for it.
func (c *Conn) pickRival() bool {
	at := c.current()
	tried := append(slices.Clip(c.retry.excluded()), at.Endpoint)
	paid := c.paid
	if !c.pay() {
		c.paid = paid
		return false
	}
	l, ok := c.front.pickers[c.scope].Pick(c.clientAddr(), tried, &c.plan.policy)
	if !ok {
		c.front.pickers[c.scope].Retried()
		c.paid = paid
		return false
	}
	c.rival = &rival{attempt: *at, lease: c.lease, dial: c.dial, dialled: c.dialled, paid: paid, quota: c.quota}
	*at = record.Attempt{Endpoint: l.Endpoint, Times: 1, Hedge: true}
	c.lease, c.dial = lease{l.State}, 1-c.dial
	c.stage.dial()
	return true
}

// underWay is that attempt.
func (f *life) underWay(d Dial) *record.Attempt {
	if r := f.rival; r != nil && r.dial == d {
		return &r.attempt
	}
	return f.current()
}

// turnTo makes that attempt the current one.
func (f *life) turnTo(d Dial) {
	r, at := f.rival, f.current()
	if r == nil || r.dial != d {
		return
	}
	r.attempt, *at = *at, r.attempt
	r.lease, f.lease = f.lease, r.lease
	r.dial, f.dial = f.dial, r.dial
	r.dialled, f.dialled = f.dialled, r.dialled
	r.paid, f.paid = f.paid, r.paid
}

// oneFailed ends the current attempt of two: the other goes on.
func (f *life) oneFailed(err error, lack Shortage, now time.Duration) step {
	f.turnTo(f.rival.dial)
	reported := err
	if r := f.rival; lack != Enough {
		reported = context.Canceled
		if r.paid {
			f.front.pickers[f.scope].Retried()
		}
	}
	if f.lone = lack == NoResources; !f.lone { // else it was not dialled, and others cannot be now
		f.failedAt(f.rival.attempt.Endpoint, err)
	}
	f.dropRival(err, reported, now)
	return step{kind: stepGoOn}
}

// dropRival ends the other attempt. The lease may hear of another error than the record.
func (f *life) dropRival(err, reported error, now time.Duration) {
	r, won := f.rival, *f.current()
	took := now - r.dialled
	f.rival = nil
	r.attempt.Ejected = r.lease.dialled(reported, took)
	f.attempted(r.attempt, err.Error(), took)
	*f.current() = r.attempt
	f.attempts.failed(err.Error(), took)
	f.attempts = append(f.attempts, won)
	r.quota.Give(quota.Descriptors, 1)
}
