package epoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// watchedAfter is how long a dial may take before the client is watched meanwhile: most take much less.
const watchedAfter = 20 * time.Millisecond

// dial connects to an endpoint and returns what comes next: nothing as long as there is no answer.
func (c *conn) dial(s splice.Step) splice.Step {
	switch e := c.connect(s); e {
	case 0:
		return c.Connected(c.l.clock())
	case unix.EINPROGRESS:
		first := s.Until
		if !c.client.watched {
			first = min(first, c.l.now+watchedAfter)
		}
		c.until = s.Until
		c.l.timers.set(&c.timer, first)
		return splice.Step{}
	default:
		return c.failed(e, c.l.engine.shortage(e))
	}
}

// connect makes the socket to the endpoint. 0: it is connected already, EINPROGRESS: the answer will come, else it
// failed.
func (c *conn) connect(s splice.Step) syscall.Errno {
	fd, e := c.l.engine.connect(s.Endpoint, s.As, c.l.now)
	c.endpoint = socket{fd: fd}
	if e != 0 && e != unix.EINPROGRESS {
		return e
	}
	c.Dialling(localAddr(fd))
	if we := c.l.watchSocket(c, &c.endpoint, tagEndpoint, streamEvents); we != 0 {
		return we
	}
	return e
}

// failed ends the attempt under way.
func (c *conn) failed(err error, lack splice.Shortage) splice.Step {
	c.l.timers.stop(&c.timer)
	c.hangUp()
	return c.Failed(err, lack, c.l.clock())
}

// hangUp closes the socket of an attempt that has failed, if there is one.
func (c *conn) hangUp() {
	if c.stage == dialing {
		c.until = 0
		c.shut(&c.endpoint, sysClose)
	}
}

// dialReady is called when the endpoint has answered: a socket that is still connecting is never reported ready.
func (c *conn) dialReady(events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		if e := sysError(c.endpoint.fd); e != 0 {
			c.perform(c.failed(e, splice.Enough))
			return
		}
	}
	c.endpoint.note(events, c.l.now)
	c.perform(c.Connected(c.l.clock()))
}

// watchClient has the loop report when the client leaves during a dial. False: that cannot be, and the connection has
// ended.
func (c *conn) watchClient() bool {
	if c.client.watched {
		return true
	}
	if e := c.l.watchSocket(c, &c.client, tagClient, streamEvents); e != 0 {
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
		c.broken(splice.Client, sysError(c.client.fd))
	}
}
