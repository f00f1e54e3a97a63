package splice

import "time"

// await waits for another round of dials as long as there is time: endpoints that refuse cost none, and one may be back soon.
func (c *conn) await(allTried bool) {
	timeouts := c.plan.policy.ConnectTimeouts
	now, end := c.l.clock(), c.accepted+sum(timeouts)
	switch {
	case c.retry == nil:
		c.refuse(OutcomeNoEndpoint)
	case len(timeouts) == 1, c.retry.silent >= len(timeouts), now >= end:
		c.refuse(OutcomeDialFailed)
	case c.watchClient():
		pause := c.retry.next(allTried)
		c.retry.waiting = true
		c.front.await(c)
		if c.news() {
			pause = 0
		}
		c.l.timers.set(&c.timer, min(now+pause, end))
	}
}

// news tells whether endpoints have changed since the connection was last told, and if so has it begin anew.
func (c *conn) news() bool {
	plan := c.front.present()
	if plan == c.seen {
		return false
	}
	c.seen = plan
	c.retry.anew()
	return true
}

// redial begins the next round.
func (c *conn) redial() {
	c.forgo()
	c.dial()
}

// dialExpired is told that the next round is due, or that an attempt takes its time or has no more of it.
func (c *conn) dialExpired(now time.Duration) {
	switch {
	case c.retry != nil && c.retry.waiting:
		c.redial()
	case now >= c.dialEnds():
		c.failed(errTimedOut)
		c.dial()
	case c.watchClient():
		c.awaitDial()
	}
}

// endpointsChanged implements waiter.
func (c *conn) endpointsChanged() {
	c.l.do(func() {
		if c.stage != over && c.retry != nil && c.retry.waiting {
			c.news()
			c.redial()
		}
	})
}

// forgo ends the wait for another round.
func (c *conn) forgo() {
	if c.retry != nil && c.retry.waiting {
		c.retry.waiting = false
		c.front.forgo(c)
	}
}
