package splice

import (
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// watchedAfter is how long a dial may take before the client is watched meanwhile: most take much less.
const watchedAfter = 20 * time.Millisecond

// advance takes the steps that come next, until there is something to wait for: an answer of the endpoint (dialReady,
// dialExpired) or of the host, another round of dials, or bytes.
func (c *conn) advance(s step) {
	for s.kind == stepDial {
		switch e := c.try(s.endpoint, s.as); {
		case e == 0:
			c.connected()
			return
		case e == unix.EINPROGRESS:
			return
		default:
			s = c.failed(e, c.l.engine.short(e))
		}
	}
	switch s.kind {
	case stepAsk:
		c.l.park(c, s.ask, c.answered)
	case stepWait:
		c.await(s.until)
	case stepRefuse:
		c.refuse(s.outcome)
	}
}

func (c *conn) answered(yes bool) {
	if c.stage != over {
		c.advance(c.life.answered(yes, c.l.clock()))
	}
}

// try connects to an endpoint. 0: connected already, EINPROGRESS: wait for the answer, else it failed.
func (c *conn) try(addr netip.AddrPort, as netip.Addr) syscall.Errno {
	fd, e := c.l.engine.connect(addr, as, c.l.now)
	c.endpoint = end{fd: fd}
	if e != 0 && e != unix.EINPROGRESS {
		return e
	}
	c.current().Proxy = localAddr(fd)
	if we := c.l.watchEnd(c, &c.endpoint, tagEndpoint, streamEvents); we != 0 {
		return we
	}
	if e == unix.EINPROGRESS {
		c.awaitDial()
	}
	return e
}

// awaitDial sets the timer for the end of the current attempt, or before that for when the client is to be watched.
func (c *conn) awaitDial() {
	at := c.dialEnds()
	if !c.client.watched {
		at = min(at, c.dialled+watchedAfter)
	}
	c.l.timers.set(&c.timer, at)
}

// failed ends the current attempt and closes its socket.
func (c *conn) failed(err error, lack shortage) step {
	c.l.timers.stop(&c.timer)
	c.shut(&c.endpoint, sysClose)
	return c.life.failed(err, lack, c.l.clock())
}

// dialReady is told that the endpoint answered: a socket that is still connecting is never reported ready.
func (c *conn) dialReady(events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		if e := sysError(c.endpoint.fd); e != 0 {
			c.advance(c.failed(e, enough))
			return
		}
	}
	c.endpoint.note(events)
	c.connected()
}

// watchClient has the loop tell when the client leaves during a dial. False: that cannot be, and the connection has ended.
func (c *conn) watchClient() bool {
	if c.client.watched {
		return true
	}
	if e := c.l.watchEnd(c, &c.client, tagClient, streamEvents); e != 0 {
		c.refuse(OutcomeResources)
		return false
	}
	return true
}

// clientReady is told of the client during a dial. A FIN alone is the end of its direction: it may wait for an answer.
func (c *conn) clientReady(events uint32) {
	c.client.note(events)
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		c.gone(true, sysError(c.client.fd))
	}
}

// connected ends the dial: from here on bytes are carried.
func (c *conn) connected() {
	c.life.connected(c.l.clock())
	c.l.timers.stop(&c.timer)
	c.retry = nil
	if c.plan.policy.ClientAddress == service.AddressProxyV2 {
		c.up.rest = proxyHeader(c.rec.Client, c.rec.OriginalDst) // which goes first, and is not counted
		c.up.passed = -int64(len(c.up.rest))
	}
	c.stage = relaying
	c.begin()
}
