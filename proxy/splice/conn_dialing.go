package splice

import (
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/record"
)

// connDialing is a connection from its admission until an endpoint is reached, or none is.
type connDialing struct{ *Conn }

func (c *Conn) dialing() connDialing { return connDialing{c} }

// changeFront makes it a connection of the front that it should have reached. False: there is none.
func (c connDialing) changeFront(dst netip.AddrPort) bool {
	f := c.life.entry.front.core.exposed.by(dst, c.life.entry.front.name.Protocol)
	if f == nil {
		return false
	}
	c.life.entry.front, c.life.entry.plan = f, f.present()
	c.life.dial.seen = c.life.entry.plan
	return true
}

// take takes what a connection needs from the account. The outcome is empty if it could.
func (c connDialing) take() record.Outcome {
	client := c.life.entry.front.quota.Client(c.life.entry.clientAddr())
	if err := client.TakeConnection(); err != nil {
		client.Leave()
		c.life.entry.front.core.opts.Warn(err)
		return record.OutcomeResources
	}
	c.quota = client
	return ""
}

// advance turns a step of its life into one for the engine.
func (c connDialing) advance(s step, now time.Duration) Step {
	switch s.kind {
	case stepLookup:
		c.lookUp(s.lookup)
		return Step{}
	case stepDial:
		d := &c.life.dial
		until := d.dialEnds(&c.life.entry)
		return Step{Kind: StepDial, Endpoint: s.endpoint, As: s.as, Dial: d.current.number, Until: until}
	case stepKeepDialing:
		return c.hedge(now)
	case stepWait, stepQueue:
		return c.await(s, now)
	default:
		return c.refused(s.outcome)
	}
}

// lookUp has a lookup done at the host and goes on with its result.
func (c connDialing) lookUp(lookup func() bool) {
	c.lookups++
	number := c.lookups
	c.life.entry.front.core.lookups.add(func() {
		yes := lookup()
		post(c.Conn, func(now time.Duration) Step {
			if !c.life.dial.lookupPending() || c.lookups != number { // another dial was faster, and perhaps in vain
				return Step{}
			}
			return c.advance(c.life.dial.lookedUp(&c.life.entry, yes, now), now)
		})
	})
}

// hedge dials another endpoint as well if it is time.
func (c connDialing) hedge(now time.Duration) Step {
	if !c.life.dial.hedge(&c.life.entry, c.quota, now) {
		return Step{}
	}
	return c.advance(c.life.dial.try(&c.life.entry, now), now)
}

// await waits for another round of dials: endpoints that refuse cost no time, and one may be back soon.
func (c connDialing) await(s step, now time.Duration) Step {
	c.waiting = true
	if s.kind == stepQueue || c.life.queue.waits() {
		c.life.queue.enter(&c.life.entry, connWaiter(c), c.quota, now)
	} else {
		c.life.entry.stage.enter(waiting)
		c.life.entry.front.await(connWaiter(c))
	}
	if c.life.dial.refreshed(&c.life.entry) {
		s.until = now
	}
	return Step{Kind: StepWait, Until: s.until}
}

// connWaiter is a connection as its front or queue sees it, which tells it that its wait is over.
type connWaiter struct{ *Conn }

// Turn begins the round that the connection waits for.
func (w connWaiter) Turn() {
	c := w.Conn
	post(c, func(now time.Duration) Step {
		if !c.waiting {
			c.life.queue.pass(&c.life.entry)
			return Step{}
		}
		c.life.dial.refreshed(&c.life.entry)
		return c.dialing().redial(now)
	})
}

// Evicted ends the wait: too many of the Service wait.
func (w connWaiter) Evicted() {
	c := w.Conn
	post(c, func(time.Duration) Step {
		if !c.life.queue.waits() {
			return Step{}
		}
		return c.end(ending{record.Proxy, record.Reset, record.OutcomeWaitLimit, nil})
	})
}

func (c connDialing) redial(now time.Duration) Step {
	c.cancelWait()
	next := c.life.dial.next(&c.life.entry, now)
	c.life.queue.pass(&c.life.entry)
	return c.advance(next, now)
}

// cancelWait ends the wait for another round.
func (c connDialing) cancelWait() {
	if c.waiting {
		c.waiting = false
		if !c.life.queue.waits() {
			c.life.entry.front.cancelWait(connWaiter(c))
		}
	}
}
