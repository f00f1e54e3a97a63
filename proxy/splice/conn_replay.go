package splice

import (
	"errors"
	"math/bits"
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

// maxReplay bounds the bytes of a client that are kept to be sent again.
const maxReplay = 64 << 10

// leastReplay is the size in bytes of the first buffer for them. It doubles as more is needed.
const leastReplay = 512

// idleAfter is how long an endpoint waits at the least before it closes a connection because there is no request. One
// that is too busy closes it at once.
const idleAfter = time.Second

// Replay keeps the bytes of a client while its connection may still go to another endpoint, by service.RetryReset: that
// gets them again. It may until the endpoint sends its first byte, unless something cannot be sent again. Its owner is
// the connection's.
type Replay struct {
	kept *kept // nil: the connection ends with its endpoint
}

type kept struct {
	sent  []byte  // by the client: its capacity is in the account
	again bool    // another endpoint is dialled, or waited for
	last  *ending // how the last endpoint ended the connection
	quota *quota.Client
	retry **retries // of the dialler: not needed any more once the connection stays with its endpoint
}

// Possible tells whether the connection may still go to another endpoint. As long as it may, the engine calls Sent for
// each load of the client before it sends it, and passes on nothing that Sent was not told of.
func (r *Replay) Possible() bool { return r.kept != nil }

// Sent keeps bytes read from the client, in case they are to be sent again. It returns Possible: no more than maxReplay
// bytes are kept, and no more than the Service's share of all that is.
func (r *Replay) Sent(b []byte) bool {
	k := r.kept
	if k == nil {
		return false
	}
	if n := len(k.sent) + len(b); n > maxReplay || n > cap(k.sent) && !k.grow(n) {
		r.Forget()
		return false
	}
	k.sent = append(k.sent, b...)
	return true
}

// grow makes room for n bytes. False: the account has no more.
func (k *kept) grow(n int) bool {
	size := max(leastReplay, 1<<bits.Len(uint(n-1)))
	if !k.quota.Take(quota.ClientBytes, int64(size-cap(k.sent))) {
		return false
	}
	sent := make([]byte, len(k.sent), size)
	copy(sent, k.sent)
	k.sent = sent
	return true
}

// Forget has the connection end with its endpoint: that has sent something, or the client's bytes cannot be sent again.
func (r *Replay) Forget() {
	if k := r.kept; k != nil {
		k.quota.Give(quota.ClientBytes, int64(cap(k.sent)))
		*k.retry = nil
		r.kept = nil
	}
}

// KeepsBytes tells whether bytes of the client are kept to be sent again.
func (r *Replay) KeepsBytes() bool { return r.kept != nil && len(r.kept.sent) > 0 }

// between tells whether the connection has left its endpoint, and is not at another yet.
func (r *Replay) between() bool { return r.kept != nil && r.kept.again }

// Replay keeps the bytes that the client has sent.
func (c *Conn) Replay() *Replay { return &c.replay }

// replays tells whether the policy has connections go to another endpoint after the connect.
func (p *plan) replays() bool {
	return p.policy.RetryOn&service.RetryReset != 0 && len(p.policy.ConnectTimeouts) > 1
}

// reached is called when an endpoint is reached, and returns the bytes to send to it again.
func (c connOpen) reached() []byte {
	switch k := c.replay.kept; {
	case k != nil: // it began under a policy that has it
		k.again = false
		return k.sent
	case c.life.entry.plan.replays():
		c.replay.kept = &kept{quota: c.quota, retry: &c.life.dial.retry}
	default:
		c.life.dial.retry = nil
	}
	return nil
}

// closedEarly is for the end of a stream, which ends the attempt if it is the endpoint's and came before any byte of
// it, unless the client's stream had ended: then it is an answer. False: the end is to be passed on.
func (c connOpen) closedEarly(from record.Side, now time.Duration) (Step, bool) {
	switch {
	case c.replay.kept == nil:
		return Step{}, false
	case c.replay.kept.again: // the client's, which the next endpoint gets
		return Step{}, true
	case from == record.Client:
		return Step{}, false
	case !c.clientEOF && !c.leftIdle(now):
		if s, ok := c.startOver(errClosedEarly, ending{record.Endpoint, record.FIN, record.OutcomeOK, nil}); ok {
			return s, true
		}
	}
	c.replay.Forget() // the client learns of the end
	return Step{}, false
}

// leftIdle tells whether the client has sent nothing for so long that an endpoint may well close the connection.
func (c connOpen) leftIdle(now time.Duration) bool {
	return len(c.replay.kept.sent) == 0 && now-(c.life.entry.began+c.life.result.connect) > idleAfter
}

// brokenEarly is for a connection that the endpoint has broken before any byte of it. False: it ends.
func (c connOpen) brokenEarly(err error, lost bool) (Step, bool) {
	if lost {
		return c.startOver(errLostEarly, ending{record.Endpoint, record.Timeout, record.OutcomeEndpointLost, err})
	}
	return c.startOver(errResetEarly, ending{record.Endpoint, record.Reset, record.OutcomeEndpointReset, err})
}

// startOver ends the attempt that had worked, and begins another. False: there is none left.
func (c connOpen) startOver(why error, last ending) (Step, bool) {
	now := c.life.entry.front.core.Now()
	if !c.mayStartOver(now) {
		return Step{}, false
	}
	c.replay.kept.again, c.replay.kept.last = true, &last
	c.clientEOF = false
	c.gone.Store(false)
	c.goneAt = 0
	c.replays++
	next := c.life.dial.failed(&c.life.entry, why, Enough, now)
	c.life.dial.retry.giveBackPicked()
	s := c.dialing().advance(next, now)
	s.Drop = s.Kind != StepEnd
	return s, true
}

// mayStartOver tells whether another endpoint is left that may be dialled in this round, or whether the connection
// would wait for one. All together it is sent again as often as dials may be repeated.
func (c connOpen) mayStartOver(now time.Duration) bool {
	dials := len(c.life.entry.plan.policy.ConnectTimeouts)
	switch {
	case c.replay.kept == nil, c.replay.between(), c.Ended(), int(c.replays)+1 >= dials:
		return false
	case c.life.entry.front.core.account.Buffers.Exhausted(): // bytes that the next endpoint does not take wait in one
		return false
	case now < c.life.entry.waitsUntil():
		return true
	}
	return c.life.dial.retry.position()+1 < dials && c.life.dial.pickAnother(&c.life.entry)
}

// refused ends a connection because there is no endpoint: as the last endpoint that was reached had ended it, if any.
func (c connDialing) refused(o record.Outcome) Step {
	if c.replay.kept == nil || c.replay.kept.last == nil {
		return c.end(ending{record.Proxy, record.Reset, o, nil})
	}
	return c.end(*c.replay.kept.last)
}
