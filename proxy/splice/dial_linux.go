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

// dial tries one endpoint after the other, each for the timeout of its place in the round, until one is connected or the
// round is over. An attempt that has no answer yet goes on in dialReady or dialExpired.
func (c *conn) dial() {
	for c.retry.left(len(c.plan.policy.ConnectTimeouts)) {
		if !c.pick() {
			c.await(true)
			return
		}
		addr := c.lease.Endpoint
		c.dialled = c.l.clock()
		c.rec.Attempts = append(c.rec.Attempts, Attempt{Endpoint: addr, Times: 1})
		e, client := c.front.engine, c.rec.Client.Addr()
		asClient, known := e.showsClient(c.plan, client, addr.Addr())
		if !known {
			c.l.park(c, func() bool { return e.opts.Returns(client, addr.Addr()) }, c.resume)
			return
		}
		if c.reach(asClient) {
			return
		}
	}
	c.await(false)
}

// resume goes on with the attempt that had to wait for Options.Returns.
func (c *conn) resume(asClient bool) {
	if c.stage != over && !c.reach(asClient) {
		c.dial()
	}
}

// reach makes the current attempt. False: it failed, and another may be made.
func (c *conn) reach(asClient bool) bool {
	switch e := c.try(c.rec.Attempts[len(c.rec.Attempts)-1].Endpoint, asClient); e {
	case 0:
		c.connected()
	case unix.EINPROGRESS:
	default:
		c.failed(e)
		if !c.l.engine.short(e) {
			return false
		}
		c.refuse(OutcomeResources)
	}
	return true
}

// pick asks for an endpoint that was not tried in this round. When all were, those that only did not answer in time may
// have another, longer try; those that refused may not.
func (c *conn) pick() (ok bool) {
	client, picker := c.rec.Client.Addr(), c.front.pickers[c.scope]
	c.lease, ok = picker.Pick(client, c.retry.without())
	if !ok && c.retry.slow() {
		c.lease, ok = picker.Pick(client, c.retry.without())
	}
	c.rec.Affinity = c.lease.Affinity
	return ok
}

// try connects to an endpoint. 0: connected already, EINPROGRESS: wait for the answer, else it failed.
func (c *conn) try(addr netip.AddrPort, asClient bool) syscall.Errno {
	var as netip.Addr
	if asClient {
		as = c.rec.Client.Addr()
	}
	fd, e := c.l.engine.connect(addr, as, c.l.now)
	c.endpoint = end{fd: fd}
	if e != 0 && e != unix.EINPROGRESS {
		return e
	}
	c.rec.Attempts[len(c.rec.Attempts)-1].Proxy = localAddr(fd)
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

func (c *conn) dialEnds() time.Duration {
	return c.dialled + c.plan.policy.ConnectTimeouts[c.retry.place()]
}

// failed notes the end of the current attempt and closes its socket.
func (c *conn) failed(why error) {
	if c.retry == nil {
		c.retry = &retries{}
	}
	took := c.l.clock() - c.dialled
	c.lease.Dialled(ofEndpoint(why), took)
	c.retry.failed(c.lease.Endpoint, why == errTimedOut)
	c.rec.failed(why.Error(), took)
	c.l.timers.stop(&c.timer)
	c.shut(&c.endpoint, sysClose)
}

// dialReady is told that the endpoint answered: a socket that is still connecting is never reported ready.
func (c *conn) dialReady(events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		if e := sysError(c.endpoint.fd); e != 0 {
			c.failed(e)
			c.dial()
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
	now := c.l.clock()
	a := &c.rec.Attempts[len(c.rec.Attempts)-1]
	a.Took = now - c.dialled
	c.lease.Dialled(nil, a.Took)
	c.rec.Connect = now - c.accepted
	c.rec.Endpoint = c.front.endpoint(c.plan, a.Endpoint)
	c.l.timers.stop(&c.timer)
	c.retry = nil
	if c.plan.policy.ClientAddress == service.AddressProxyV2 {
		c.up.rest = proxyHeader(c.rec.Client, c.rec.OriginalDst) // which goes first, and is not counted
		c.up.passed = -int64(len(c.up.rest))
	}
	c.stage = relaying
	c.begin()
}
