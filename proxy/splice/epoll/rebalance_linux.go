package epoll

// settledAfter is how many turns make a connection one that stays. Those that ask once and close take some five.
const settledAfter = 16

// unevenLoad is how many settled connections more than another loop has a loop carries before it hands one over: at 2,
// eight streams on two loops are four and four, and a lone connection never moves.
const unevenLoad = 2

// settle counts the turns of a connection. One that stays counts as load from then on, and goes to the loop that has
// the least of it when loads are uneven: whichever loop was free has accepted it, which says nothing of the long run.
func (c *conn) settle() {
	if c.turns == settledAfter {
		return
	}
	if c.turns++; c.turns < settledAfter {
		return
	}
	c.l.load.Add(1)
	if to := c.l.engine.lightest(); c.l.load.Load()-to.load.Load() >= unevenLoad {
		c.leaving = true
		c.l.leaving = append(c.l.leaving, c)
	}
}

// handOver moves connections to lighter loops. It runs between two rounds, when no event of theirs is under way; those
// that wait for a turn stay until it has come.
func (l *loop) handOver() {
	stay := l.leaving[:0]
	for _, c := range l.leaving {
		if c.stage != relaying {
			continue
		}
		if c.queued {
			stay = append(stay, c)
			continue
		}
		c.leaving = false
		to := l.engine.lightest()
		if l.load.Load()-to.load.Load() < unevenLoad {
			c.queue() // it gave its turn up
			continue
		}
		c.unwatch(&c.client)
		c.unwatch(&c.endpoint)
		timed := c.timer.index != 0
		c.at.Store(to)
		l.timers.stop(&c.timer)
		l.load.Add(-1)
		to.load.Add(1)
		to.do(func() { c.arrive(to, timed) })
	}
	clear(l.leaving[len(stay):])
	l.leaving = stay
}

// arrive continues a connection on another loop.
func (c *conn) arrive(l *loop, timed bool) {
	c.l = l
	if timed {
		l.timers.set(&c.timer, c.timer.at)
	}
	c.watchBoth()
	c.relay()
}
