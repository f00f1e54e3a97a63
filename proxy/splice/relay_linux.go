package splice

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// begin gives a connection its first turn. The client's first bytes are in most likely, so they are passed on before the
// client is watched: its first event is then about something new.
func (c *conn) begin() {
	c.client.readable, c.client.writable, c.endpoint.writable = true, true, true
	c.awaitSilence()
	c.relay()
	if c.stage == relaying {
		c.watchBoth()
	}
}

// watchBoth watches the ends that are not watched yet. What holds by now comes as their first event.
func (c *conn) watchBoth() {
	events := uint32(streamEvents)
	if c.client.writable {
		events &^= unix.EPOLLOUT // asked for when the client does not take what it gets
	}
	for _, w := range []struct {
		end    *end
		tag    uint8
		events uint32
	}{{&c.client, tagClient, events}, {&c.endpoint, tagEndpoint, streamEvents}} {
		if w.end.watched {
			continue
		}
		if e := c.l.watchEnd(c, w.end, w.tag, w.events); e != 0 {
			c.refuse(OutcomeResources)
			return
		}
	}
}

// relay gives both directions a turn and ends the connection when both are done or one of the ends is gone.
func (c *conn) relay() {
	if c.stage != relaying {
		return
	}
	c.settle()
	moved := c.up.carried + c.down.carried
	up, e := c.up.turn(c.l, &c.client, &c.endpoint)
	if up >= srcGone {
		c.gone(up == srcGone, e)
		return
	}
	had := c.down.carried
	down, e := c.down.turn(c.l, &c.endpoint, &c.client)
	if had == 0 && c.down.carried > 0 {
		c.firstByte(c.l.clock())
	}
	if down >= srcGone {
		c.gone(down == dstGone, e)
		return
	}
	if c.up.carried+c.down.carried != moved {
		c.last = c.l.now
	}
	// An end that broke while nothing is read from it: its direction is over already, or stuck at the other end.
	switch {
	case c.client.broken && up != more:
		c.gone(true, sysError(c.client.fd))
	case c.endpoint.broken && down != more:
		c.gone(false, sysError(c.endpoint.fd))
	default:
		c.after(up, down)
	}
}

// after settles what comes next once neither end is gone.
func (c *conn) after(up, down verdict) {
	if c.ended == "" && (up == ended || down == ended) {
		c.halfClose(up == ended, down == ended)
	}
	switch {
	case up == ended && down == ended:
		c.finish(c.ended, FIN, OutcomeOK, sysClose) // which passes the second FIN on
	case up == more || down == more:
		c.queue()
	}
}

// queue has the connection wait for a turn among bulk.
func (c *conn) queue() {
	if !c.queued {
		c.queued = true
		c.l.turns.add(c)
	}
}

// wake gives a connection a turn of which something was told: at once what is small, bulk after that.
func (c *conn) wake() {
	if c.up.isBulk() || c.down.isBulk() {
		c.queue()
		return
	}
	c.relay()
}

// halfClose passes the first FIN on and starts the clock for the other direction.
func (c *conn) halfClose(up, down bool) {
	c.ended = Endpoint
	to := &c.client
	if up {
		c.ended, to = Client, &c.endpoint
	}
	if !up || !down {
		sysShutdownWrite(to.fd)
	}
	c.last = c.l.now
	c.awaitSilence()
}

// gone ends a connection one end of which is no more; the other end sees a reset.
func (c *conn) gone(client bool, e syscall.Errno) {
	if e != 0 {
		c.rec.Error = e.Error()
	}
	lost := e == unix.ETIMEDOUT || e == unix.EHOSTUNREACH || e == unix.ENETUNREACH
	switch {
	case client && lost:
		c.fail(Client, Timeout, OutcomeClientLost)
	case client:
		c.fail(Client, Reset, OutcomeClientReset)
	case lost:
		c.fail(Endpoint, Timeout, OutcomeEndpointLost)
	default:
		c.fail(Endpoint, Reset, OutcomeEndpointReset)
	}
}

// patience is how long the connection may be silent in its present state; negative = for ever.
func (c *conn) patience() time.Duration {
	if c.ended != "" {
		return c.plan.policy.HalfClose
	}
	return c.plan.policy.Idle
}

// awaitSilence starts the clock of the present state.
func (c *conn) awaitSilence() {
	if patience := c.patience(); patience > 0 {
		c.l.timers.set(&c.timer, c.l.now+patience)
	} else {
		c.l.timers.stop(&c.timer)
	}
}

func (c *conn) checkSilence(now time.Duration) {
	patience := c.patience()
	switch {
	case patience < 0:
	case now < c.last+patience:
		c.l.timers.set(&c.timer, c.last+patience)
	case c.ended != "":
		c.fail(Proxy, Timeout, OutcomeHalfClosed)
	default:
		c.fail(Proxy, Timeout, OutcomeIdle)
	}
}
