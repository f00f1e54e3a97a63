package splice

import "time"

// await waits for another round of dials: endpoints that refuse cost no time, and one may be back soon.
func (c *conn) await(until time.Duration) {
	if !c.watchClient() {
		return
	}
	c.retry.waiting = true
	c.front.await(c)
	if c.refreshed() {
		until = c.l.now
	}
	c.l.timers.set(&c.timer, until)
}

// redial begins the next round.
func (c *conn) redial() {
	c.forgo()
	c.advance(c.next(c.l.clock()))
}

// dialExpired is told that the next round is due, or that an attempt takes its time or has no more of it.
func (c *conn) dialExpired(now time.Duration) {
	switch {
	case c.retry != nil && c.retry.waiting:
		c.redial()
	case now >= c.dialEnds():
		c.advance(c.failed(errTimeout, enough))
	case c.watchClient():
		c.awaitDial()
	}
}

// endpointsChanged implements waiter.
func (c *conn) endpointsChanged() {
	c.l.do(func() {
		if c.stage != over && c.retry != nil && c.retry.waiting {
			c.refreshed()
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
