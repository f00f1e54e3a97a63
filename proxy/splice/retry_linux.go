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
		c.l.await(c)
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
	c.l.forgo(c)
	c.dial()
}

// dialExpired is told that the next round is due, or that an attempt takes its time or has no more of it.
func (c *conn) dialExpired(now time.Duration) {
	switch {
	case c.retry != nil && c.retry.waiting:
		c.redial()
	case now >= c.dialEnds():
		c.failed(timedOut)
		c.dial()
	case c.watchClient():
		c.awaitDial()
	}
}

// await keeps a connection among those that wake wakes.
func (l *loop) await(c *conn) {
	c.retry.waiting = true
	c.front.waiting.Add(1)
	if l.waiting == nil {
		l.waiting = map[*Front]map[*conn]struct{}{}
	}
	if l.waiting[c.front] == nil {
		l.waiting[c.front] = map[*conn]struct{}{}
	}
	l.waiting[c.front][c] = struct{}{}
}

// forgo is for whoever waits no longer.
func (l *loop) forgo(c *conn) {
	if c.retry == nil || !c.retry.waiting {
		return
	}
	c.retry.waiting = false
	c.front.waiting.Add(-1)
	if delete(l.waiting[c.front], c); len(l.waiting[c.front]) == 0 {
		delete(l.waiting, c.front)
	}
}

// wake has the connections of a front dial now that wait for another round: its endpoints have changed.
func (l *loop) wake(f *Front) {
	waiting := l.waiting[f]
	delete(l.waiting, f)
	for c := range waiting {
		c.news()
		c.redial()
	}
}

func (f *Front) wake() {
	if f.waiting.Load() == 0 {
		return
	}
	for _, l := range f.engine.loops {
		l.do(func() { l.wake(f) })
	}
}
