package epoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// watchedAfter is how long a dial may take before the client is watched meanwhile: most take much less.
const watchedAfter = 20 * time.Millisecond

// dial connects to an endpoint and returns what comes next: nothing as long as there is no answer.
func (c *conn) dial(s splice.Step) splice.Step {
	to, until := c.place(s.Dial)
	switch e := c.connect(s, to); e {
	case 0:
		return c.connected(s.Dial)
	case unix.EINPROGRESS:
		*until = s.Until
		return splice.Step{}
	default:
		return c.failed(s.Dial, e, c.l.engine.shortage(e))
	}
}

// awaitDials sets the timer for what comes first of the dials under way: a timeout, another dial, or a look at the
// client. Without any it is as it was.
func (c *conn) awaitDials() {
	if c.stage != dialing || !c.dials() {
		return
	}
	first := c.until
	if c.second != nil && (first == 0 || c.second.until < first) {
		first = c.second.until
	}
	if at := c.HedgeAt(); at >= 0 {
		first = min(first, at)
	}
	if !c.client.watched {
		first = min(first, c.l.now+watchedAfter)
	}
	c.l.timers.set(&c.timer, first)
}

// connect makes the socket to the endpoint. 0: it is connected already, EINPROGRESS: the answer will come, else it
// failed.
func (c *conn) connect(s splice.Step, to *socket) syscall.Errno {
	fd, e := c.l.engine.connect(s.Endpoint, s.As, c.l.now)
	*to = socket{fd: fd, tag: tagDial + uint8(s.Dial)}
	if e != 0 && e != unix.EINPROGRESS {
		return e
	}
	c.Dialling(s.Dial, localAddr(fd))
	if we := c.l.watchSocket(c, to, streamEvents); we != 0 {
		return we
	}
	return e
}

// failed ends a dial under way.
func (c *conn) failed(d splice.Dial, err error, lack splice.Shortage) splice.Step {
	c.l.timers.stop(&c.timer)
	c.hangUp(d)
	return c.Failed(d, err, lack, c.l.clock())
}

// timedOut ends a dial under way that had no answer in its time.
func (c *conn) timedOut(d splice.Dial, now time.Duration) {
	c.hangUp(d)
	c.perform(c.TimedOut(d, now))
}

// dialReady is called when the endpoint has answered: a socket that is still connecting is never reported ready.
func (c *conn) dialReady(events uint32, d splice.Dial) {
	s, _ := c.place(d)
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		if e := sysError(s.fd); e != 0 {
			c.perform(c.failed(d, e, splice.Enough))
			return
		}
	}
	s.note(events, c.l.now)
	c.perform(c.connected(d))
}

// watchClient has the loop report when the client leaves during a dial. False: that cannot be, and the connection has
// ended.
func (c *conn) watchClient() bool {
	if c.client.watched {
		return true
	}
	if e := c.l.watchSocket(c, &c.client, streamEvents); e != 0 {
		c.perform(c.Exhausted())
		return false
	}
	return true
}

// clientReady is called for an event of the client during a dial. A FIN alone is the end of its stream: it may wait for
// an answer.
func (c *conn) clientReady(events uint32) {
	c.client.note(events, c.l.now)
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		c.broken(record.Client, sysError(c.client.fd))
	}
}
