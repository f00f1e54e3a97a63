package splice

import (
	"net/netip"
	"time"
)

// conn is one TCP connection from its accept to its record. One loop owns it at a time.
type conn struct {
	life
	l      *loop
	timer  timer
	stage  stage
	holder *holder // who has what it takes; nil: it was refused

	client, endpoint end
	up, down         flow // client to endpoint, endpoint to client

	queued  bool  // for a turn among bulk
	leaving bool  // to another loop
	turns   uint8 // up to settledAfter
	ended   Side  // who ended first
}

type stage uint8

const (
	dialing stage = iota
	relaying
	over
)

func newConn(l *loop, f *Front, fd int, client netip.AddrPort) *conn {
	c := &conn{l: l}
	c.life.begin(f, client, l.now)
	c.rounds, c.timer.owner = true, c
	c.client.fd, c.endpoint.fd = fd, -1
	f.engine.conns.Add(1)
	return c
}

// ready is told by the loop which end can do what.
func (c *conn) ready(events uint32, tag uint8) {
	switch {
	case c.stage == over:
	case c.stage == dialing && tag == tagClient:
		c.clientReady(events)
	case c.stage == dialing:
		c.dialReady(events)
	case tag == tagClient:
		c.client.note(events)
		c.wake()
	default:
		c.endpoint.note(events)
		c.wake()
	}
}

// expired is told by the loop when the timer of the current stage fired.
func (c *conn) expired(now time.Duration) {
	if c.stage == dialing {
		c.dialExpired(now)
		return
	}
	c.checkSilence(now)
}

// cut ends the connection by force.
func (c *conn) cut() {
	if c.stage != over {
		c.fail(Proxy, Reset, OutcomeCut)
	}
}

// refuse ends a connection that never reached an endpoint.
func (c *conn) refuse(o Outcome) { c.fail(Proxy, Reset, o) }

// fail ends the connection with a reset to whoever is still there.
func (c *conn) fail(by Side, how How, o Outcome) {
	c.finish(by, how, o, sysReset)
}

// finish is the last stage: both sockets are closed, what was borrowed is given back, and the record goes out.
func (c *conn) finish(by Side, how How, o Outcome, closeFd func(int)) {
	c.stage = over
	c.l.timers.stop(&c.timer)
	c.forgo()
	c.up.drop(c.l)
	c.down.drop(c.l)
	c.shut(&c.client, closeFd)
	c.shut(&c.endpoint, closeFd)
	c.giveBack()
	if c.turns == settledAfter {
		c.l.load.Add(-1)
	}
	r := &c.rec
	r.BytesFromClient, r.BytesToEndpoint = c.up.carried, max(0, c.up.passed)
	r.BytesFromEndpoint, r.BytesToClient = c.down.carried, c.down.passed
	c.report(by, how, o, c.l.clock())
}

// shut closes one end. A closed descriptor leaves the epoll set by itself.
func (c *conn) shut(s *end, closeFd func(int)) {
	if s.fd < 0 {
		return
	}
	if s.watched {
		c.l.forget(s.id)
		s.watched = false
	}
	closeFd(s.fd)
	s.fd = -1
}

func (c *conn) unwatch(s *end) {
	if s.watched {
		c.l.unwatch(s.fd, s.id)
		s.watched = false
	}
}
