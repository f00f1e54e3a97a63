package splice

import (
	"syscall"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// clientQuietTime is after which a connection is quiet of which the client was the last to send: it may wait for an
// answer. See quietTime.
const clientQuietTime = time.Minute

// removedDeadPeer is how long the host of an endpoint that was removed, or does not serve any more, may be without an
// answer: most likely it is gone. A host that lives answers, whatever its pod does.
const removedDeadPeer = 15 * time.Second

// leastDeadPeer is the least that a policy can ask for: three times the second that keepalive knows. In less, two
// segments that were lost would be a dead host.
const leastDeadPeer = 3 * time.Second

// Keepalive sets how a socket probes an idle peer: first after Idle, then each Interval, and Count times before it is
// given up.
type Keepalive struct {
	Idle, Interval time.Duration
	Count          int
}

// DefaultKeepalive goes with service.DefaultDeadPeer. Engines set it on all sockets.
func DefaultKeepalive() Keepalive {
	return Keepalive{Idle: time.Minute, Interval: 15 * time.Second, Count: 8}
}

// KeepaliveFor is one that gives up a peer after that time, in whole seconds, which is all that systems know.
func KeepaliveFor(deadPeer time.Duration) Keepalive {
	if deadPeer == service.DefaultDeadPeer {
		return DefaultKeepalive()
	}
	const most = 32767 * time.Second // MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL of Linux
	third := min(max(time.Second, (deadPeer/3+time.Second-1).Truncate(time.Second)), most)
	return Keepalive{Idle: third, Interval: third, Count: 2}
}

// Until is when the connection, which is established, is to be looked at by Expired unless something happens before;
// negative: never.
func (c *Conn) Until(now time.Duration) time.Duration {
	until, p := c.open().silentUntil(), &c.life.entry.plan.policy
	if p.MaxAge.Time > 0 && !c.HalfClosed() {
		until = sooner(until, c.open().quietSince(c.life.entry.began+c.open().maxAge(), now))
	}
	if c.goneAt > 0 && p.Removed.Do == service.ResetConnections {
		until = sooner(until, c.goneAt+p.Removed.After)
	}
	if c.goneAt > 0 && p.Removed.Do == service.CloseWhenIdle && !c.HalfClosed() {
		until = sooner(until, c.open().quietSince(c.goneAt, now))
	}
	if t := c.open().deadPeer(); t != service.DefaultDeadPeer {
		until = sooner(until, next(c.open().suspectFrom(t), now, max(t/3, time.Second)))
	}
	return until
}

// silentUntil is when the connection will have been silent for too long in its present state; negative: never.
func (c connOpen) silentUntil() time.Duration {
	timeout := c.life.entry.plan.policy.Idle
	if c.HalfClosed() {
		timeout = c.life.entry.plan.policy.HalfClose
	}
	if timeout <= 0 {
		return -1
	}
	return c.life.entry.lastMoved() + timeout
}

// sooner is the earlier of two times, of which a negative one never comes.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// next is a time that has not come yet: after that it is looked again each pause.
func next(at, now, pause time.Duration) time.Duration {
	if at > now {
		return at
	}
	return now + pause
}

// connOpen is a connection that is established.
type connOpen struct{ *Conn }

func (c *Conn) open() connOpen { return connOpen{c} }

// look ends an established connection for which it is time, or says when to look again.
func (c connOpen) look(now time.Duration) Step {
	if s := c.overdue(now); s.Kind != StepNone {
		return s
	}
	if until := c.Until(now); until >= 0 {
		return Step{Kind: StepWait, Until: until}
	}
	return Step{}
}

func (c connOpen) overdue(now time.Duration) Step {
	p := &c.life.entry.plan.policy
	if how, due := c.removalDue(now); due {
		c.checkEndpoint() // it may be back, and the core's look still to come
		switch c.notice(now); {
		case c.goneAt == 0:
		case how == record.FIN: // nothing is under way
			return c.end(ending{record.Proxy, record.FIN, record.OutcomeEndpointRemoved, nil})
		default:
			return c.endAfter(FromEndpoint, ending{record.Proxy, how, record.OutcomeEndpointRemoved, nil})
		}
	}
	if p.MaxAge.Time > 0 && now >= c.life.entry.began+c.maxAge() && c.quiet(now) {
		return c.end(ending{record.Proxy, record.FIN, record.OutcomeMaxAge, nil})
	}
	if t := c.deadPeer(); t != service.DefaultDeadPeer && now >= c.suspectFrom(t) {
		return c.endIfDead(t, max(p.DeadPeer, leastDeadPeer))
	}
	return Step{}
}

// removalDue tells whether the connection is to end now because its endpoint is gone, and how.
func (c connOpen) removalDue(now time.Duration) (how record.CloseType, due bool) {
	switch p := &c.life.entry.plan.policy.Removed; {
	case c.goneAt == 0:
		return "", false
	case p.Do == service.ResetConnections:
		return record.Reset, now >= c.goneAt+p.After
	default:
		return record.FIN, p.Do == service.CloseWhenIdle && c.quiet(now)
	}
}

// maxAge is the connection's own, drawn of its id: a successor draws the same.
func (c connOpen) maxAge() time.Duration {
	return c.life.entry.plan.policy.MaxAge.Draw(c.life.entry.id ^ uint64(c.life.entry.since))
}

// quietFrom is when the connection will be quiet if no byte moves until then.
func (c connOpen) quietFrom() time.Duration {
	if c.life.entry.clientLast() {
		return c.life.entry.lastMoved() + clientQuietTime
	}
	return c.life.entry.lastMoved() + quietTime
}

// quietSince is when to look, from some time on, whether it is quiet. An answer may come at any time, and be the last
// that moves.
func (c connOpen) quietSince(from, now time.Duration) time.Duration {
	at := c.quietFrom()
	if c.life.entry.clientLast() {
		at = min(at, now+2*quietTime)
	}
	return next(max(from, at), now, quietTime)
}

// quiet tells whether nothing is under way, here or in the kernel, so that a FIN to both sides loses nothing. A
// connection of which one stream has ended is not: its end is the peers' matter.
func (c connOpen) quiet(now time.Duration) bool {
	t := &c.life.entry.traffic
	return !c.HalfClosed() && now >= c.quietFrom() &&
		t.FromClient.Load() == t.ToEndpoint.Load() && t.FromEndpoint.Load() == t.ToClient.Load() && !c.owner.InFlight()
}

// deadPeer is how long the endpoint's host may stay silent while bytes for it are not acknowledged.
func (c connOpen) deadPeer() time.Duration {
	t := max(c.life.entry.plan.policy.DeadPeer, leastDeadPeer)
	if c.goneAt > 0 {
		t = min(t, removedDeadPeer)
	}
	return t
}

// suspectFrom is when to check hosts that are given so much time.
func (c connOpen) suspectFrom(t time.Duration) time.Duration {
	return max(c.life.entry.lastMoved(), c.goneAt) + t
}

// endIfDead ends the connection if bytes for one side were not acknowledged, and nothing else came of it, for so long.
// Keepalive is the kernel's matter; it is silent while bytes wait. Unlike TCP_USER_TIMEOUT this spares peers that
// answer and do not read.
func (c connOpen) endIfDead(endpoint, client time.Duration) Step {
	switch {
	case c.owner.Unresponsive(record.Endpoint, endpoint):
		return c.Broken(record.Endpoint, syscall.ETIMEDOUT, true)
	case c.owner.Unresponsive(record.Client, client):
		return c.Broken(record.Client, syscall.ETIMEDOUT, true)
	}
	return Step{}
}

// established is called when an endpoint is reached.
func (c connOpen) established(now time.Duration) {
	if t := c.life.entry.plan.policy.DeadPeer; t != service.DefaultDeadPeer {
		c.owner.SetKeepalive(record.Client, KeepaliveFor(t))
		c.owner.SetKeepalive(record.Endpoint, KeepaliveFor(t))
	}
	if c.life.entry.front.plan.Load() != c.life.entry.plan { // it may have been removed meanwhile
		c.checkEndpoint()
		c.notice(now)
	}
}

// endpointChanged is called after an endpoint went or came back. Only the present note counts: calls may come late, and
// in another order. A connection that is about to go to another endpoint checks that one: see established.
func (c connOpen) endpointChanged(now time.Duration) Step {
	if c.replay.between() {
		return Step{}
	}
	c.notice(now)
	return c.look(now)
}

// notice begins to apply the policy for removed endpoints, or stops where the endpoint is back.
func (c connOpen) notice(now time.Duration) {
	gone := c.gone.Load()
	if gone == (c.goneAt > 0) {
		return
	}
	if c.goneAt = 0; gone {
		c.goneAt = now
	}
	if c.life.entry.plan.policy.DeadPeer > removedDeadPeer {
		c.owner.SetKeepalive(record.Endpoint, KeepaliveFor(c.deadPeer()))
	}
}

// checkEndpoint notes whether the endpoint is gone. The core and the owner may both be at it: whoever changes the note
// looks again, since it may have looked before the other did.
func (c connOpen) checkEndpoint() {
	e := c.life.entry.endpoint.Load()
	if e == nil || c.life.entry.front.orphan { // nobody knows the endpoints of an orphan
		return
	}
	for {
		gone := !c.life.entry.front.serves(*e)
		if gone == c.gone.Load() {
			return
		}
		c.gone.Store(gone)
		post(c.Conn, c.endpointChanged)
	}
}

// checkSilent looks for dead peers if it has been silent for silentTime, and had not been at the last look.
func (c connOpen) checkSilent(last, now time.Duration) {
	e := &c.life.entry
	at, standard := e.lastMoved()+silentTime, e.plan.policy.DeadPeer == service.DefaultDeadPeer
	if standard && last < at && at <= now && e.endpoint.Load() != nil {
		post(c.Conn, func(time.Duration) Step { return c.endIfDead(silentTime, silentTime) })
	}
}
