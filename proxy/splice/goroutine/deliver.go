package goroutine

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// delivery is what is left of a connection that has ended: see splice.Step.Deliver. Its directions go on until there is
// nothing to read. Then their destinations are asked now and then: nothing tells when they have acknowledged all.
type delivery struct {
	splice.Delivery
	streams splice.Streams
	blind   time.Duration // when it ends where they cannot be asked; 0: not yet
}

// fault is what has broken a connection.
type fault struct {
	is    bool // a socket has failed: what it has sent can be read, and nothing more comes
	ended bool // its stream had ended before
}

// blindTime is how long a reset waits for what was sent before it where nobody tells whether that has arrived.
const blindTime = 200 * time.Millisecond

// brokenBy is the step after a socket error of one side. mu is held.
func (c *conn) brokenBy(side record.Side, err error) splice.Step {
	switch d := c.delivery; {
	case d == nil:
		c.fault = fault{is: true, ended: is(err, syscall.EPIPE)} // so Linux names a reset that comes after a FIN
		return c.Broken(side, cause(err), lost(err))
	case d.streams == splice.StreamFrom(side):
		return splice.Step{}
	default: // nobody is left who takes what is delivered
		return splice.Step{Kind: splice.StepEnd, Reset: true}
	}
}

// deliver begins to bring streams to their peers. mu is held.
func (c *conn) deliver(streams splice.Streams) {
	c.delivery = &delivery{Delivery: c.Delivers(c.e.core.Now()), streams: streams}
	switch {
	case !c.fault.is:
		for _, s := range c.streams(streams &^ c.done) {
			_ = s.from.SetReadDeadline(time.Unix(1, 0)) // long past: it interrupts who reads
		}
	case c.fault.ended && !c.HalfClosed():
		for _, s := range c.streams(streams & c.done) {
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

// streams are those of the set. mu is held, and the endpoint is connected.
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
	d, now := c.delivery, c.e.core.Now()
	all := c.streams(d.streams)
	left := make([]int64, len(all))
	var passed, unacknowledged int64
	for i, s := range all {
		left[i] = c.unacknowledged(s.to)
		passed, unacknowledged = passed+s.passed.Load(), unacknowledged+left[i]
	}
	delivered := c.done&d.streams == d.streams && unacknowledged == 0
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

// unacknowledged is how many bytes the peer of a socket did not acknowledge, 0 where that is not known.
func (c *conn) unacknowledged(socket *net.TCPConn) (n int64) {
	if ask := c.e.host.Queues; ask != nil {
		control(socket, func(fd uintptr) {
			_, out := ask(fd)
			n = int64(out)
		})
	}
	return n
}

// over notes that the direction passes on nothing any more. It returns true if what else its source sends is to be
// discarded, so that a peer goes on that sends before it reads.
func (d *direction) over() (discards bool) {
	c := d.c
	c.mu.Lock()
	defer c.mu.Unlock()
	stream := splice.StreamFrom(d.from.side)
	c.done |= stream
	if c.closed || c.delivery == nil {
		return false
	}
	c.look()
	return !c.closed && c.delivery.streams&stream == 0
}

// discard reads what nobody is left for, until the connection is closed.
func (d *direction) discard() {
	_ = d.from.tcp.SetReadDeadline(time.Time{}) // closed: the read says so
	buf := takeBuffer()
	defer buffers.Put(buf)
	for {
		n, err := d.from.tcp.Read(buf[:])
		d.from.bytes.Add(int64(n))
		if err != nil {
			d.readFailed(err)
			return
		}
	}
}

// interrupted tells whether a read has failed because the connection has ended, and passes on what can be read at once.
func (d *direction) interrupted(err error) bool {
	if !deadlinePassed(err) || !d.c.delivers() {
		return false
	}
	receive, ask := d.c.e.host.Receive, d.c.e.host.Queues
	if receive == nil || ask == nil {
		return true
	}
	var left int
	control(d.from.tcp, func(fd uintptr) { left, _ = ask(fd) })
	for left > 0 {
		var n int
		buf := takeBuffer()
		control(d.from.tcp, func(fd uintptr) { n, d.urgent, _, _ = receive(fd, buf[:]) })
		if n <= 0 {
			buffers.Put(buf)
			break
		}
		if left -= n; !d.pass(load{buf: buf, n: n}) {
			break
		}
	}
	return true
}

// delivers tells whether the connection has ended, but for that.
func (c *conn) delivers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.delivery != nil
}
