package goroutine

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// delivery brings to the peers the rest of a connection that has ended: see splice.Step.Deliver. Its directions go on
// until there is nothing to read. Then the queues of their destinations are read now and then: nothing tells when they
// have acknowledged all.
type delivery struct {
	splice.Delivery
	streams splice.Streams
	blind   time.Duration // when it ends where queues cannot be read; 0: not yet
}

// ending is how far a connection has come whose streams end.
type ending struct {
	done     splice.Streams // of which nothing more is passed on
	delivery *delivery      // nil: the connection has not ended
	fault    fault
}

// fault tells how a connection was broken.
type fault struct {
	is    bool // a socket has failed: what it has sent can be read, and nothing more comes
	ended bool // its stream had ended before
}

// blindTime is how long a reset waits for what was sent before it where nobody tells whether that has arrived.
const blindTime = 200 * time.Millisecond

// brokenBy is the step after a socket error of one side. mu is held.
func (c *conn) brokenBy(side record.Side, err error) splice.Step {
	switch d := c.ending.delivery; {
	case d == nil:
		c.ending.fault = fault{is: true, ended: is(err, syscall.EPIPE)} // so Linux names a reset that comes after a FIN
		return c.Broken(side, cause(err), lost(err))
	case d.streams == splice.StreamFrom(side):
		return splice.Step{}
	default: // nobody is left to deliver to
		return splice.Step{Kind: splice.StepEnd, Reset: true}
	}
}

// deliver begins to bring streams to their peers. mu is held.
func (c *conn) deliver(streams splice.Streams) {
	c.ending.delivery = &delivery{Delivery: splice.BeginDelivery(&c.Conn, c.e.core.Now()), streams: streams}
	switch {
	case !c.ending.fault.is:
		for _, s := range c.streams(streams &^ c.ending.done) {
			_ = s.from.SetReadDeadline(time.Unix(1, 0)) // long past: it interrupts who reads
		}
	case c.ending.fault.ended && !c.HalfClosed():
		for _, s := range c.streams(streams & c.ending.done) {
			closeWrite(s.to) // its direction could not tell the end from the reset
		}
	}
	c.look()
}

// stream is one that is delivered.
type stream struct {
	from, to *net.TCPConn
	passed   *atomic.Int64
}

// streams returns the directions of the set. mu is held, and the endpoint is connected.
func (c *conn) streams(of splice.Streams) (all []stream) {
	t := c.Traffic()
	if of&splice.FromClient != 0 {
		all = append(all, stream{c.client, c.endpoint, &t.ToEndpoint})
	}
	if of&splice.FromEndpoint != 0 {
		all = append(all, stream{c.endpoint, c.client, &t.ToClient})
	}
	return all
}

// look closes the connection once peers have all of the streams, or take nothing any more, or else looks again later.
// mu is held.
func (c *conn) look() {
	d, now := c.ending.delivery, c.e.core.Now()
	all := c.streams(d.streams)
	left := make([]int64, len(all))
	var passed, unacknowledged int64
	for i, s := range all {
		_, n := c.e.host.queues(s.to)
		left[i] = int64(n)
		passed, unacknowledged = passed+s.passed.Load(), unacknowledged+left[i]
	}
	delivered := c.ending.done&d.streams == d.streams && unacknowledged == 0
	if delivered && c.e.host.Queues == nil && passed > 0 {
		if d.blind == 0 {
			d.blind = now + blindTime
		}
		delivered = now >= d.blind
	}
	next, goesOn := d.Look(passed-unacknowledged, now)
	switch {
	case delivered:
		c.close(true)
	case !goesOn:
		for i, s := range all {
			s.passed.Add(-left[i])
		}
		c.close(true)
	default:
		c.setTimer(next)
	}
}

// delivers tells whether the connection has ended, but for that.
func (c *conn) delivers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending.delivery != nil
}
