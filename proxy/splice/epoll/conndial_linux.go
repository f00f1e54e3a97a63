package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// watchedAfter is how long a dial may take before the client is watched meanwhile: most take much less.
const watchedAfter = 20 * time.Millisecond

// dial connects to an endpoint and returns what comes next: nothing as long as there is no answer.
func (c *conn) dial(s splice.Step) splice.Step {
	from, e := c.dials.connect(c.l.dialer, &c.l.poller, c, s, &c.relay.endpoint)
	if from.IsValid() {
		c.Dialling(s.Dial, from)
	}
	switch e {
	case 0:
		return c.connected(s.Dial)
	case unix.EINPROGRESS:
		return splice.Step{}
	default:
		return c.failed(s.Dial, e, c.l.dialer.shortage(e))
	}
}

// awaitDials sets the timer for what comes first of the dials under way: a timeout, another dial, or a look at the
// client. Without any it is as it was.
func (c *conn) awaitDials() {
	if c.stage != dialing || !c.dials.any() {
		return
	}
	first := c.dials.next()
	if at := c.HedgeAt(); at >= 0 {
		first = min(first, at)
	}
	if !c.relay.client.watched {
		first = min(first, c.l.now+watchedAfter)
	}
	c.l.timers.set(&c.timer, first)
}

// dialReady is called when the endpoint has answered: a socket that is still connecting is never reported ready.
func (c *conn) dialReady(events uint32, d splice.Dial) {
	s, _ := c.dials.place(d, &c.relay.endpoint)
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		if e := sysError(s.fd); e != 0 {
			c.perform(c.failed(d, e, splice.Enough))
			return
		}
	}
	s.note(events, c.l.now)
	c.perform(c.connected(d))
}

// connected ends a dial whose endpoint is reached. A dial that it has overtaken is given up.
func (c *conn) connected(d splice.Dial) splice.Step {
	c.dials.won(&c.l.poller, d, &c.relay.endpoint)
	return c.Connected(d, c.l.clock())
}

// failed ends a dial under way.
func (c *conn) failed(d splice.Dial, err error, lack splice.Shortage) splice.Step {
	c.l.timers.stop(&c.timer)
	c.dials.hangUp(&c.l.poller, d, &c.relay.endpoint)
	return c.Failed(d, err, lack, c.l.clock())
}

// watchClient has the loop report when the client leaves during a dial. False: that cannot be, and the connection has
// ended.
func (c *conn) watchClient() bool {
	client := &c.relay.client
	if client.watched {
		return true
	}
	if e := client.watch(&c.l.poller, c, streamEvents); e != 0 {
		c.perform(c.Abort(record.OutcomeResources))
		return false
	}
	return true
}

// leaveEndpoint goes back to dials, as splice.Step.Drop tells. Events of this iteration that are of the endpoint, or of
// a dial that it had overtaken, are not about the next one, which has the tag of either.
func (c *conn) leaveEndpoint() {
	c.relay.leaveEndpoint(&c.l.stock)
	c.l.ignore(c, tagDial)
	c.l.timers.stop(&c.timer)
	c.stage, c.dials.until, c.migrating = dialing, 0, false
}
