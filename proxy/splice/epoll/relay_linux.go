package epoll

import (
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// begin gives a connection its first turn. The client's first bytes are in most likely, so they are passed on before the
// client is watched: its first event is then about something new.
func (c *conn) begin(s splice.Step) {
	c.stage, c.until = relaying, 0
	c.up.rest, c.up.passed = s.Header, -int64(len(s.Header))
	c.client.readable, c.client.writable, c.endpoint.writable = true, true, true
	c.setTimer(s.Until)
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
			c.perform(c.Exhausted())
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
		c.gone(sideOf(up == srcGone), e)
		return
	}
	had := c.down.carried
	down, e := c.down.turn(c.l, &c.endpoint, &c.client)
	if had == 0 && c.down.carried > 0 {
		c.FirstByte(c.l.clock())
	}
	if down >= srcGone {
		c.gone(sideOf(down == dstGone), e)
		return
	}
	if c.up.carried+c.down.carried != moved {
		c.Moved(c.l.now)
	}
	c.publish()
	// An end that broke while nothing is read from it: its direction is over already, or stuck at the other end.
	switch {
	case c.client.broken && up != more:
		c.gone(splice.Client, sysError(c.client.fd))
	case c.endpoint.broken && down != more:
		c.gone(splice.Endpoint, sysError(c.endpoint.fd))
	default:
		c.after(up, down)
	}
}

// after settles what comes next once neither end is gone.
func (c *conn) after(up, down verdict) {
	switch {
	case up == ended && down == ended:
		if !c.HalfClosed() {
			c.EOF(splice.Client, c.l.now) // both at once: no side is left to be half-closed
		}
		c.perform(c.EOF(splice.Endpoint, c.l.now)) // which passes the second FIN on
		return
	case c.HalfClosed():
	case up == ended:
		c.halfClose(splice.Client, &c.endpoint)
	case down == ended:
		c.halfClose(splice.Endpoint, &c.client)
	}
	if up == more || down == more {
		c.queue()
	}
}

// sideOf is the client's side or the endpoint's.
func sideOf(client bool) splice.Side {
	if client {
		return splice.Client
	}
	return splice.Endpoint
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

// halfClose passes the first FIN on.
func (c *conn) halfClose(from splice.Side, to *end) {
	s := c.EOF(from, c.l.now)
	sysShutdownWrite(to.fd)
	c.setTimer(s.Until)
}
