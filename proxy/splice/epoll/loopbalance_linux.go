package epoll

// longLivedAfter is how many relays make a connection a long-lived one. One that asks once and closes takes some five.
const longLivedAfter = 16

// maxImbalance is how many long-lived connections more than another loop has a loop keeps: from this many on it hands
// one over. At 2, eight streams on two loops are four and four, and a single connection never moves.
const maxImbalance = 2

// count counts the relays of a connection. A long-lived one counts as load of its loop, and is to move to the loop with
// the least load if loads are uneven: which loop has accepted it says nothing of the long run.
func (l *loop) count(c *conn) {
	if c.relays == longLivedAfter {
		return
	}
	if c.relays++; c.relays < longLivedAfter {
		return
	}
	l.load.Add(1)
	if l.load.Load()-l.loops.lightest().load.Load() >= maxImbalance {
		c.migrating = true
		l.migrating = append(l.migrating, c)
	}
}

// uncount is for a connection that ends.
func (l *loop) uncount(c *conn) {
	if c.relays == longLivedAfter {
		l.load.Add(-1)
	}
}

// migrate moves connections to lighter loops. It runs between two iterations, when no event of theirs is being handled.
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
		to := l.loops.lightest()
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
	c.relay.unwatch(&l.poller)
	timed := c.timer.index != 0
	c.at.Store(to)
	l.timers.stop(&c.timer)
	l.load.Add(-1)
	to.load.Add(1)
	to.do(func() { to.receive(c, timed) })
}

// receive goes on with a connection that another loop has sent.
func (l *loop) receive(c *conn, timed bool) {
	c.l = l
	if timed {
		l.timers.set(&c.timer, c.timer.at)
	}
	c.watch()
	c.carry()
}
