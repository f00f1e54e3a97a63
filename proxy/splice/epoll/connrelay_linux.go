package epoll

import (
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// begin starts to carry. The client's first bytes have most likely arrived, so they are passed on before the client is
// watched: its first event is then about something new.
func (c *conn) begin(s splice.Step) {
	r := &c.relay
	c.stage, c.dials.until = relaying, 0
	r.up.rest, r.up.passed = s.Header, -int64(len(s.Header))
	r.client.readable, r.client.writable, r.endpoint.writable = true, true, true
	r.guard()
	c.setTimer(s.Until)
	if c.Replay().Possible() && !c.beginAgain(s) {
		return
	}
	c.carry()
	if c.stage == relaying || c.stage == delivering {
		c.watch()
	}
}

// beginAgain is the start of begin for a connection that may go to another endpoint, or is at another one. False: that
// one has failed as well.
func (c *conn) beginAgain(s splice.Step) bool {
	r := &c.relay
	r.up.replay = c.Replay()
	if s.Again == nil {
		return true
	}
	if n, e := sysSend(r.endpoint.fd, s.Header); n < len(s.Header) { // a new socket takes it
		c.broken(record.Endpoint, e)
		return false
	}
	r.up.passed = 0
	r.up.put(&c.l.stock, 0, s.Again, false)
	return true
}

// watch watches both sockets.
func (c *conn) watch() {
	if e := c.relay.watch(&c.l.poller, c); e != 0 {
		c.perform(c.Abort(record.OutcomeResources))
	}
}

// carry gives both directions a quantum, and ends the connection at the end of both or at an error of either socket.
func (c *conn) carry() {
	r := &c.relay
	switch {
	case c.stage == delivering:
		c.deliver()
		return
	case c.stage != relaying:
		return
	case r.client.failed: // what it has sent can still be read
		c.broken(record.Client, r.up.failure(&r.client))
		return
	case r.endpoint.failed:
		c.broken(record.Endpoint, r.down.failure(&r.endpoint))
		return
	}
	c.l.count(c)
	sent, replied := r.up.carried, r.down.carried
	up, e := r.up.carry(&c.l.stock, &r.client, &r.endpoint)
	if up >= sourceFailed {
		c.broken(sideOf(up == sourceFailed), e)
		return
	}
	down, e := r.down.carry(&c.l.stock, &r.endpoint, &r.client)
	if replied == 0 && r.down.carried > 0 {
		c.FirstByte(c.l.clock())
	}
	if down >= sourceFailed {
		c.broken(sideOf(down == destinationFailed), e)
		return
	}
	c.moved(c.l.now, sent, replied)
	c.after(up, down)
}

// moved notes what was carried since the flows had carried so much.
func (c *conn) moved(now time.Duration, sent, replied int64) {
	r := &c.relay
	if r.up.carried != sent || r.down.carried != replied {
		c.Moved(now, r.up.carried != sent)
	}
	r.publish(c.Traffic())
}

// after passes on what ends, and queues the connection if there is more to do.
func (c *conn) after(up, down progress) {
	switch {
	case up == atEOF && down == atEOF:
		c.bothEnd()
		return
	case c.HalfClosed():
	case up == atEOF:
		c.halfClose(record.Client, &c.relay.endpoint)
	case down == atEOF:
		c.halfClose(record.Endpoint, &c.relay.client)
	}
	if up == more || down == more {
		c.queue()
	}
}

// halfClose passes the first FIN on.
func (c *conn) halfClose(from record.Side, to *socket) {
	s := c.EOF(from, c.l.now)
	if s.Kind != splice.StepHalfClose { // it goes to another endpoint
		c.perform(s)
		return
	}
	if f := c.relay.flowFrom(from); f.mem != nil {
		f.mem.ended.Store(1)
	}
	to.end()
	c.setTimer(s.Until)
}

// bothEnd ends the connection, whose second FIN is passed on by that.
func (c *conn) bothEnd() {
	first, second := record.Client, record.Endpoint
	if c.Replay().Possible() { // the endpoint has not ended for the client's end, of which it does not know
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

// schedule carries what an event is about: at once, unless it is bulk, which comes after all that is small.
func (c *conn) schedule() {
	if c.relay.bulk() {
		c.queue()
		return
	}
	c.carry()
}

// queue has the connection wait for a quantum.
func (c *conn) queue() {
	if !c.queued {
		c.queued = true
		c.l.quanta.add(c)
	}
}
