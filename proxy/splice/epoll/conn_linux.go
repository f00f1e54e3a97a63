package epoll

import (
	"cmp"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// conn is a Conn with its sockets. It tells the core what has happened, and has its parts do the steps that the core
// returns. One loop owns it at a time.
type conn struct {
	splice.Conn
	l     *loop                // that owns it
	at    atomic.Pointer[loop] // the same, or the loop that it moves to
	timer timer

	stage     stage
	queued    bool  // for a quantum
	migrating bool  // to another loop
	relays    uint8 // up to longLivedAfter
	dials     dials // while that is the stage
	relay     relay

	delivery *delivery // while that is the stage
	standing *standing // while it is departed
}

type stage uint8

const (
	dialing stage = iota
	relaying
	delivering // it has ended, but for that
	departed   // a successor has it, or is about to
	closed
)

// accept begins a connection whose client was accepted and is guarded.
func (l *loop) accept(f *splice.Front, fd int, client netip.AddrPort) {
	c := &conn{l: l}
	c.at.Store(l)
	c.timer.owner = c
	r := &c.relay
	r.client.fd, r.client.guarded, r.endpoint.fd = fd, true, -1
	c.Accept(f, owner{c}, client, l.now)
	c.perform(c.Admit(dialled(l.core.Options(), fd, client), l.clock()))
}

// dialled returns which address a client has dialled.
func dialled(o *splice.Options, fd int, client netip.AddrPort) netip.AddrPort {
	if o.OriginalDst != nil {
		if dst, err := o.OriginalDst(fd, inet.FamilyOf(client.Addr())); err == nil {
			return dst
		}
	}
	return localAddr(fd)
}

// perform does what the core has decided.
func (c *conn) perform(s splice.Step) {
	if s.Drop {
		c.leaveEndpoint()
	}
	for s.Kind == splice.StepDial {
		s = c.dial(s)
	}
	switch s.Kind {
	case splice.StepNone:
		c.awaitDials()
	case splice.StepWait:
		if c.watchClient() {
			c.setTimer(s.Until)
		}
	case splice.StepCarry:
		c.begin(s)
	case splice.StepEnd:
		c.end(s, false)
	}
}

// setTimer has the core look at the connection again at that time; negative: never. Keepalive may have to begin before.
func (c *conn) setTimer(until time.Duration) {
	if c.stage == relaying && !c.relay.endpoint.probing {
		if at := c.l.now + keepaliveAfter; until < 0 || at < until {
			until = at
		}
	}
	if until < 0 {
		c.l.timers.stop(&c.timer)
	} else {
		c.l.timers.set(&c.timer, until)
	}
}

// ready implements handler.
func (c *conn) ready(events uint32, tag uint8) {
	r := &c.relay
	switch {
	case c.stage >= departed:
	case c.stage == dialing && tag == tagClient:
		r.client.note(events, c.l.now)
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 { // a FIN alone is the end of its stream: it may wait for an answer
			c.broken(record.Client, sysError(r.client.fd))
		}
	case c.stage == dialing:
		c.dialReady(events, splice.Dial(tag-tagDial))
	case tag == tagClient:
		r.client.note(events, c.l.now)
		c.schedule()
	case tag == r.endpoint.tag: // else it is of a dial that was overtaken in this iteration
		r.endpoint.note(events, c.l.now)
		c.schedule()
	}
}

// expired implements timed.
func (c *conn) expired(now time.Duration) {
	late, isLate := c.dials.late(now)
	switch hedge := c.HedgeAt(); {
	case c.stage == delivering:
		c.deliver()
	case c.stage == relaying && !c.relay.endpoint.probing:
		c.relay.endpoint.keepAlive(splice.DefaultKeepalive())
		c.setTimer(c.Until(now))
	case isLate:
		c.dials.hangUp(&c.l.poller, late, &c.relay.endpoint)
		c.perform(c.Failed(late, splice.ErrTimeout, splice.Enough, now))
	case !c.dials.any() || hedge >= 0 && now >= hedge:
		c.perform(c.Expired(now))
	case c.watchClient(): // a dial that takes long: the client may leave meanwhile
		c.awaitDials()
	}
}

// broken ends a connection one socket of which has failed.
func (c *conn) broken(side record.Side, e syscall.Errno) {
	if f := c.relay.flowFrom(side); f.mem != nil {
		f.mem.broken.Store(uint32(cmp.Or(e, unix.ECONNRESET)))
	}
	if side == record.Endpoint && c.Replay().Possible() && c.relay.firstByteWaits() {
		c.FirstByte(c.l.clock()) // another endpoint is not to answer too
	}
	lost := e == unix.ETIMEDOUT || e == unix.EHOSTUNREACH || e == unix.ENETUNREACH
	var err error
	if e != 0 {
		err = e
	}
	if s := c.Broken(side, err, lost); s.Kind == splice.StepEnd {
		c.end(s, e == unix.EPIPE) // so the kernel names a reset that comes after a FIN
	} else {
		c.perform(s)
	}
}

// end ends the connection. ended: the stream of the side that has failed had ended before.
func (c *conn) end(s splice.Step, ended bool) {
	if s.Deliver == 0 || c.stage != relaying {
		c.close(s.Reset)
		return
	}
	c.stage, c.migrating = delivering, false
	c.delivery = newDelivery(c, s.Deliver, ended)
	c.deliver()
}

// close closes both sockets and gives back what was borrowed.
func (c *conn) close(reset bool) {
	now, l, r := c.l.clock(), c.l, &c.relay
	rec := c.Record()
	rec.ClientBlocked, rec.EndpointBlocked = r.client.blocked.Until(now), r.endpoint.blocked.Until(now)
	if l.core.Options().TCPInfo {
		rec.ClientTCP, rec.EndpointTCP = owner{c}.tcpInfo()
	}
	c.stage = closed
	l.timers.stop(&c.timer)
	r.close(&l.stock, reset)
	c.dials.drop(&l.poller)
	r.unkeep(l.keeping)
	l.uncount(c)
	r.publish(c.Traffic())
	c.Closed(now)
}
