package splice

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// Errors of attempts that had worked, and that service.RetryReset repeats.
var (
	errResetEarly  = errors.New("reset before a response")
	errLostEarly   = errors.New("lost before a response")
	errClosedEarly = errors.New("closed before a response")
)

// maxReplay is how much of a client is kept to be sent again, in bytes.
const maxReplay = 64 << 10

// leastReplay is how much memory the first of it takes, in bytes. It doubles as more is needed.
const leastReplay = 512

// idleAfter is how long an endpoint waits at the least before it closes a connection for want of a request. One that is
// too busy closes it at once.
const idleAfter = time.Second

// replay is what a connection has to begin anew with another endpoint after the connect, by service.RetryReset. It has
// none from the first byte of the endpoint on, nor if something cannot be sent again.
type replay struct {
	sent  []byte  // by the client: its capacity is in the account
	again bool    // another endpoint is dialled, or waited for
	last  *ending // how the last endpoint ended the connection
}

// replays tells whether the policy has connections go to another endpoint after the connect.
func (p *plan) replays() bool {
	return p.policy.RetryOn&service.RetryReset != 0 && len(p.policy.ConnectTimeouts) > 1
}

// reachedAgain is called when an endpoint is reached, and returns what is to be sent to it again.
func (c *Conn) reachedAgain() []byte {
	switch {
	case c.replay != nil: // it began under a policy that has it
		c.replay.again = false
		return c.replay.sent
	case c.life.entry.plan.replays():
		c.replay = &replay{}
	default:
		c.life.dial.retry = nil
	}
	return nil
}

// Replayable tells whether the connection may go to another endpoint still. As long as it may, the engine calls
// ClientSent for each load of the client before it sends it, and passes on nothing that ClientSent was not told of.
func (c *Conn) Replayable() bool { return c.replay != nil }

// ClientSent keeps what was read of the client, in case it is to be sent again. It returns Replayable: no more than
// maxReplay bytes are kept, and no more than the Service's share of all that is.
func (c *Conn) ClientSent(b []byte) bool {
	r := c.replay
	if r == nil {
		return false
	}
	if n := len(r.sent) + len(b); n > maxReplay || n > cap(r.sent) && !c.growReplay(n) {
		c.ForgetReplay()
		return false
	}
	r.sent = append(r.sent, b...)
	return true
}

// growReplay makes room for n bytes. False: the account has no more.
func (c *Conn) growReplay(n int) bool {
	r, size := c.replay, max(leastReplay, 1<<bits.Len(uint(n-1)))
	if !c.quota.Take(quota.ClientBytes, int64(size-cap(r.sent))) {
		return false
	}
	sent := make([]byte, len(r.sent), size)
	copy(sent, r.sent)
	r.sent = sent
	return true
}

// ForgetReplay has the connection end with its endpoint: it has sent something, or what the client sends cannot be sent
// again.
func (c *Conn) ForgetReplay() {
	if r := c.replay; r != nil {
		c.quota.Give(quota.ClientBytes, int64(cap(r.sent)))
		c.replay, c.life.dial.retry = nil, nil
	}
}

// KeepsBytes tells whether the client has sent something that is kept to be sent again.
func (c *Conn) KeepsBytes() bool { return c.replay != nil && len(c.replay.sent) > 0 }

// closedEarly is for the end of a stream, which ends the attempt if it is the endpoint's and came before any byte of
// it, unless the client's stream had ended: then it is an answer. False: the end is to be passed on.
func (c *Conn) closedEarly(from record.Side, now time.Duration) (Step, bool) {
	switch {
	case c.replay == nil:
		return Step{}, false
	case c.replay.again: // the client's, which the next endpoint gets
		return Step{}, true
	case from == record.Client:
		return Step{}, false
	case !c.clientEOF && !c.leftIdle(now):
		if s, ok := c.startOver(errClosedEarly, ending{record.Endpoint, record.FIN, record.OutcomeOK, nil}); ok {
			return s, true
		}
	}
	c.ForgetReplay() // the client learns of the end
	return Step{}, false
}

// leftIdle tells whether the client has sent nothing for so long that an endpoint may well close the connection.
func (c *Conn) leftIdle(now time.Duration) bool {
	return len(c.replay.sent) == 0 && now-(c.life.entry.began+c.life.result.connect) > idleAfter
}

// brokenEarly is for a connection that the endpoint has broken before any byte of it. False: it ends.
func (c *Conn) brokenEarly(err error, lost bool) (Step, bool) {
	if lost {
		return c.startOver(errLostEarly, ending{record.Endpoint, record.Timeout, record.OutcomeEndpointLost, err})
	}
	return c.startOver(errResetEarly, ending{record.Endpoint, record.Reset, record.OutcomeEndpointReset, err})
}

// goesOver tells whether the connection has left its endpoint, and is not at another yet.
func (c *Conn) goesOver() bool { return c.replay != nil && c.replay.again }

// startOver ends the attempt that had worked, and begins another. False: there is none left.
func (c *Conn) startOver(why error, last ending) (Step, bool) {
	now := c.life.entry.front.core.Now()
	if !c.mayStartOver(now) {
		return Step{}, false
	}
	c.replay.again, c.replay.last = true, &last
	c.clientEOF = false
	c.gone.Store(false)
	c.goneAt = 0
	c.replays++
	next := c.life.dial.failed(&c.life.entry, why, Enough, now)
	c.life.dial.retry.giveBackPicked()
	s := c.advance(next, now)
	s.Drop = s.Kind != StepEnd
	return s, true
}

// mayStartOver tells whether another endpoint is left that may be dialled in this round, or whether the connection
// would wait for one. All together it is sent again as often as dials may be repeated.
func (c *Conn) mayStartOver(now time.Duration) bool {
	dials := len(c.life.entry.plan.policy.ConnectTimeouts)
	switch {
	case c.replay == nil, c.goesOver(), c.Ended(), int(c.replays)+1 >= dials:
		return false
	case c.life.entry.front.core.account.Buffers.Exhausted(): // what the next endpoint does not take waits in one
		return false
	case now < c.life.entry.patience():
		return true
	}
	return c.life.dial.retry.position()+1 < dials && c.othersLeft()
}

// othersLeft picks an endpoint that was not tried for the next dial, if there is one.
func (c *Conn) othersLeft() bool {
	if c.life.dial.retry == nil {
		c.life.dial.retry = &retries{}
	}
	tried := append(slices.Clone(c.life.dial.retry.tried), c.life.dial.attempt().Endpoint)
	l, ok := c.life.entry.picker().Pick(c.life.entry.clientAddr(), tried, &c.life.entry.plan.policy)
	if ok {
		c.life.dial.retry.picked = &l
	}
	return ok
}

// takePicked returns what othersLeft has picked, false if there is nothing.
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

// refused ends a connection for want of an endpoint: as the last endpoint ended it that was reached, if one was.
func (c *Conn) refused(o record.Outcome) Step {
	if c.replay == nil || c.replay.last == nil {
		return c.end(ending{record.Proxy, record.Reset, o, nil})
	}
	return c.end(*c.replay.last)
}
