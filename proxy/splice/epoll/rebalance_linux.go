package epoll

// longLivedAfter is how many relays make a connection a long-lived one. One that asks once and closes takes some five.
const longLivedAfter = 16

// maxImbalance is how many long-lived connections more than another loop has a loop keeps: from this many on it hands
// one over. At 2, eight streams on two loops are four and four, and a lone connection never moves.
const maxImbalance = 2

// rebalance counts the relays of a connection. A long-lived one counts as load of its loop, and is to move to the loop
// with the least load if loads are uneven: which loop has accepted it says nothing of the long run.
func (c *conn) rebalance() {
	if c.relays == longLivedAfter {
		return
	}
	if c.relays++; c.relays < longLivedAfter {
		return
	}
	c.l.load.Add(1)
	if to := c.l.engine.lightest(); c.l.load.Load()-to.load.Load() >= maxImbalance {
		c.migrating = true
		c.l.migrating = append(c.l.migrating, c)
	}
}

// migrate moves connections to lighter loops. It runs between two rounds, when no event of theirs is being handled.
// Those in the queue for a quantum stay until they have had it.
func (l *loop) migrate() {
	stay := l.migrating[:0]
	for _, c := range l.migrating {
		if c.stage != relaying {
			continue
		}
		if c.queued {
			stay = append(stay, c)
			continue
		}
		c.migrating = false
		to := l.engine.lightest()
		if l.load.Load()-to.load.Load() < maxImbalance {
			c.queue() // it was passed over while it was to move
			continue
		}
		l.send(c, to)
	}
	clear(l.migrating[len(stay):])
	l.migrating = stay
}

// send hands a connection over to another loop.
func (l *loop) send(c *conn, to *loop) {
	c.unwatch(&c.client)
	c.unwatch(&c.endpoint)
	timed := c.timer.index != 0
	c.at.Store(to)
	l.timers.stop(&c.timer)
	l.load.Add(-1)
	to.load.Add(1)
	to.do(func() { c.arrive(to, timed) })
}

// arrive continues a connection on the loop that it has moved to.
func (c *conn) arrive(l *loop, timed bool) {
	c.l = l
	if timed {
		l.timers.set(&c.timer, c.timer.at)
	}
	c.watchBoth()
	c.relay()
}
