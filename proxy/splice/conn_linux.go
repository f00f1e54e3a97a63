package splice

import (
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/service"
)

// conn is one TCP connection from its accept to its record. One loop owns it at a time.
type conn struct {
	l     *loop
	front *Front
	plan  *plan
	timer timer
	stage stage

	surplus bool          // one more than there may be
	short   bool          // there are no descriptors for it
	holder  *holder       // who has what it takes
	scope   service.Scope // which endpoints are for the client

	client, endpoint end
	up, down         flow // client to endpoint, endpoint to client

	lease    Lease         // of the current attempt, and then of the connection
	retry    *retries      // nil: no dial has failed
	seen     *plan         // that dials knew of: a newer one may bring endpoints
	dialled  time.Duration // when the current attempt began
	accepted time.Duration
	last     time.Duration // when bytes last moved
	queued   bool          // for a turn among bulk
	leaving  bool          // to another loop
	turns    uint8         // up to settledAfter
	ended    Side          // who ended first

	rec     Record
	attempt [1]Attempt // room for the usual single attempt
}

type stage uint8

const (
	dialing stage = iota
	relaying
	over
)

func newConn(l *loop, f *Front, fd int, client netip.AddrPort) *conn {
	c := &conn{l: l, front: f, plan: f.present(), accepted: l.now, last: l.now}
	c.seen, c.timer.owner = c.plan, c
	c.client.fd, c.endpoint.fd = fd, -1
	c.rec = Record{
		ID: f.engine.nextID.Add(1), Start: time.Now(), Service: f.name, Client: client,
		Connect: -1, FirstByte: -1, Attempts: c.attempt[:0],
	}
	c.surplus = !f.join(c.plan)
	c.holder = f.engine.account.holder(f.tenant, client.Addr())
	c.short = !f.engine.account.takeConnection(c.holder)
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
	e := c.front.engine
	if !c.short {
		e.account.giveConnection(c.holder)
	}
	e.account.leaveHolder(c.holder)
	c.front.leave()
	e.conns.Add(-1)
	if c.turns == settledAfter {
		c.l.load.Add(-1)
	}

	r := &c.rec
	if r.pending() {
		took := c.l.clock() - c.dialled
		c.lease.GiveUp(took)
		r.failed(givenUp, took)
	}
	r.ClosedBy, r.How, r.Outcome = by, how, o
	r.BytesFromClient, r.BytesToEndpoint = c.up.carried, max(0, c.up.passed)
	r.BytesFromEndpoint, r.BytesToClient = c.down.carried, c.down.passed
	c.lease.Ended(!r.brokenByEndpoint(), r.BytesToEndpoint, r.BytesFromEndpoint)
	r.Duration = c.l.clock() - c.accepted
	c.front.observer.Observe(r)
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
