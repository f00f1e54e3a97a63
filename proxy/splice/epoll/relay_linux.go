package epoll

import (
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// begin starts to carry. The client's first bytes have most likely arrived, so they are passed on before the client is
// watched: its first event is then about something new.
func (c *conn) begin(s splice.Step) {
	c.stage, c.until = relaying, 0
	c.up.rest, c.up.passed = s.Header, -int64(len(s.Header))
	c.client.readable, c.client.writable, c.endpoint.writable = true, true, true
	c.guard()
	c.setTimer(s.Until)
	if c.Replayable() && !c.beginAgain(s) {
		return
	}
	c.relay()
	if c.stage == relaying || c.stage == delivering {
		c.watchBoth()
	}
}

// watchBoth watches the sockets that are not watched yet. What holds by now is reported as their first event.
func (c *conn) watchBoth() {
	events := uint32(streamEvents)
	if c.client.writable {
		events &^= unix.EPOLLOUT // watched for once the client's send buffer is full
	}
	for _, w := range []struct {
		socket *socket
		events uint32
	}{{&c.client, events}, {&c.endpoint, streamEvents}} {
		if w.socket.watched {
			continue
		}
		if e := c.l.watchSocket(c, w.socket, w.events); e != 0 {
			c.perform(c.Exhausted())
			return
		}
	}
}

// relay gives both directions a quantum, and ends the connection at the end of both or at an error of either socket.
func (c *conn) relay() {
	switch {
	case c.stage == delivering:
		c.goOn()
		return
	case c.stage != relaying:
		return
	case c.client.failed: // what it has sent can still be read
		c.broken(record.Client, c.up.failure(&c.client))
		return
	case c.endpoint.failed:
		c.broken(record.Endpoint, c.down.failure(&c.endpoint))
		return
	}
	c.rebalance()
	asked, answered := c.up.carried, c.down.carried
	up, e := c.up.carry(c.l, &c.client, &c.endpoint)
	if up >= sourceFailed {
		c.broken(sideOf(up == sourceFailed), e)
		return
	}
	down, e := c.down.carry(c.l, &c.endpoint, &c.client)
	if answered == 0 && c.down.carried > 0 {
		c.FirstByte(c.l.clock())
	}
	if down >= sourceFailed {
		c.broken(sideOf(down == destinationFailed), e)
		return
	}
	if c.up.carried != asked || c.down.carried != answered {
		c.Moved(c.l.now, c.up.carried != asked)
	}
	c.publish()
	c.after(up, down)
}

// after passes on what ends, and queues the connection if there is more to do.
func (c *conn) after(up, down progress) {
	switch {
	case up == atEOF && down == atEOF:
		c.bothEnd()
		return
	case c.HalfClosed():
	case up == atEOF:
		c.halfClose(record.Client, &c.endpoint)
	case down == atEOF:
		c.halfClose(record.Endpoint, &c.client)
	}
	if up == more || down == more {
		c.queue()
	}
}

// bothEnd ends the connection, whose second FIN is passed on by that.
func (c *conn) bothEnd() {
	first, second := record.Client, record.Endpoint
	if c.Replayable() { // the endpoint has not ended for the client's end, of which it does not know
		first, second = second, first
	}
	if !c.HalfClosed() { // both at once: no side is left to be half-closed
		if s := c.EOF(first, c.l.now); s.Kind != splice.StepHalfClose {
			c.perform(s)
			return
		}
	}
	c.perform(c.EOF(second, c.l.now))
}

// sideOf is the client's side or the endpoint's.
func sideOf(client bool) record.Side {
	if client {
		return record.Client
	}
	return record.Endpoint
}

// queue has the connection wait for a quantum.
func (c *conn) queue() {
	if !c.queued {
		c.queued = true
		c.l.quanta.add(c)
	}
}

// schedule relays what an event is about: at once, unless it is bulk, which comes after all that is small.
func (c *conn) schedule() {
	if c.up.isBulk() || c.down.isBulk() {
		c.queue()
		return
	}
	c.relay()
}

// halfClose passes the first FIN on.
func (c *conn) halfClose(from record.Side, to *socket) {
	s := c.EOF(from, c.l.now)
	if s.Kind != splice.StepHalfClose { // it goes to another endpoint
		c.perform(s)
		return
	}
	if f := c.flowFrom(from); f.mem != nil {
		f.mem.ended.Store(1)
	}
	to.end()
	c.setTimer(s.Until)
}
