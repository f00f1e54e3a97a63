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

// conn is a Conn with its sockets. One loop owns it at a time.
type conn struct {
	splice.Conn
	l     *loop                // that owns it
	at    atomic.Pointer[loop] // the same, or the loop that it moves to
	timer timer
	until time.Duration // when the dial of endpoint times out; 0: it is not under way

	client, endpoint socket
	second           *secondDial // nil: there is none
	up, down         flow        // client to endpoint, endpoint to client

	stage     stage
	queued    bool   // for a quantum
	migrating bool   // to another loop
	relays    uint8  // up to longLivedAfter
	slot      uint32 // in the engine's memory, while up.mem is set

	seldom *seldom // nil: there is nothing
}

// seldom is what few connections have, so that it takes a pointer of the others.
type seldom struct {
	posted   []func(now time.Duration) splice.Step // while it was departed
	delivery *delivery                             // while that is the stage
}

func (c *conn) rare() *seldom {
	if c.seldom == nil {
		c.seldom = &seldom{}
	}
	return c.seldom
}

type stage uint8

const (
	dialing stage = iota
	relaying
	delivering // it has ended, but for that
	departed   // a successor has it, or is about to
	closed
)

// newConn is a connection whose client was accepted and is guarded.
func newConn(l *loop, f *splice.Front, fd int, client netip.AddrPort) *conn {
	c := &conn{l: l}
	c.at.Store(l)
	c.timer.owner = c
	c.client.fd, c.client.guarded, c.endpoint.fd = fd, true, -1
	c.Accept(f, c, client, l.now)
	return c
}

func (c *conn) admit() {
	c.perform(c.Admit(c.originalDst(), c.l.clock()))
}

func (c *conn) originalDst() netip.AddrPort {
	if ask := c.l.engine.core.Options().OriginalDst; ask != nil {
		if dst, err := ask(c.client.fd, inet.FamilyOf(c.Client().Addr())); err == nil {
			return dst
		}
	}
	return localAddr(c.client.fd)
}

// Interface implements Owner.
func (c *conn) Interface() int {
	return Interface(uintptr(c.client.fd), inet.FamilyOf(c.Client().Addr()))
}

// Post implements Owner.
func (c *conn) Post(next func(now time.Duration) splice.Step) {
	l := c.at.Load()
	l.do(func() {
		if c.at.Load() != l || c.l != l { // it has moved to another loop, or is on its way
			c.Post(next)
			return
		}
		switch c.stage {
		case departed: // it may stay
			c.rare().posted = append(c.rare().posted, next)
		case closed:
		default:
			c.perform(next(l.clock()))
		}
	})
}

// TCPInfo implements Owner.
func (c *conn) TCPInfo(tell func(client, endpoint record.TCPInfo)) {
	l := c.at.Load()
	queued := l.do(func() {
		if c.at.Load() != l || c.l != l { // as in Post
			c.TCPInfo(tell)
			return
		}
		tell(c.tcpInfo())
	})
	if !queued {
		tell(record.TCPInfo{}, record.TCPInfo{})
	}
}

// tcpInfo is that of both sockets, of the endpoint's once it is connected.
func (c *conn) tcpInfo() (client, endpoint record.TCPInfo) {
	if c.stage < departed {
		client = TCPInfo(uintptr(c.client.fd))
	}
	if c.stage == relaying || c.stage == delivering {
		endpoint = TCPInfo(uintptr(c.endpoint.fd))
	}
	return client, endpoint
}

// perform does what the core has decided.
func (c *conn) perform(s splice.Step) {
	if s.Drop {
		c.drop()
	}
	for s.Kind == splice.StepDial {
		s = c.dial(s)
	}
	switch s.Kind {
	case splice.StepNone:
		c.awaitDials()
	case splice.StepWait:
		c.await(s.Until)
	case splice.StepCarry:
		c.begin(s)
	case splice.StepEnd:
		c.end(s, false)
	}
}

// end ends the connection. ended: the stream of the side that has failed had ended before.
func (c *conn) end(s splice.Step, ended bool) {
	if s.Deliver != 0 && c.stage == relaying {
		c.deliver(s.Deliver, ended)
	} else {
		c.close(s.Reset)
	}
}

// await waits for the timer, and for the client to leave.
func (c *conn) await(until time.Duration) {
	if c.watchClient() {
		c.setTimer(until)
	}
}

func (c *conn) setTimer(until time.Duration) {
	if until < 0 {
		c.l.timers.stop(&c.timer)
	} else {
		c.l.timers.set(&c.timer, until)
	}
}

// ready implements handler.
func (c *conn) ready(events uint32, tag uint8) {
	switch {
	case c.stage >= departed:
	case c.stage == dialing && tag == tagClient:
		c.clientReady(events)
	case c.stage == dialing:
		c.dialReady(events, splice.Dial(tag-tagDial))
	case tag == tagClient:
		c.client.note(events, c.l.now)
		c.schedule()
	case tag == c.endpoint.tag: // else it is of a dial that was overtaken in this round
		c.endpoint.note(events, c.l.now)
		c.schedule()
	}
}

// expired implements timed. Of two dials that are late by now, as where the loop was busy, the one was due first.
func (c *conn) expired(now time.Duration) {
	first := c.until != 0 && now >= c.until
	switch at := c.HedgeAt(); {
	case c.stage == delivering:
		c.goOn()
	case c.second != nil && now >= c.second.until && !(first && c.until <= c.second.until):
		c.timedOut(secondOne, now)
	case first:
		c.timedOut(firstOne, now)
	case !c.dials() || at >= 0 && now >= at:
		c.perform(c.Expired(now))
	case c.watchClient(): // a dial that takes long: the client may leave meanwhile
		c.awaitDials()
	}
}

// broken ends a connection one socket of which has failed.
func (c *conn) broken(side record.Side, e syscall.Errno) {
	if f := c.flowFrom(side); f.mem != nil {
		f.mem.broken.Store(uint32(cmp.Or(e, unix.ECONNRESET)))
	}
	c.answered(side)
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

// close closes both sockets and gives back what was borrowed.
func (c *conn) close(reset bool) {
	now := c.l.clock()
	c.SetBlocked(c.client.blocked.Until(now), c.endpoint.blocked.Until(now))
	if c.WantsTCPInfo() {
		c.SetTCPInfo(c.tcpInfo())
	}
	c.stage = closed
	if !reset {
		c.unguard()
	}
	closeFd := sysClose
	switch kept := c.up.mem != nil; {
	case kept && reset:
		closeFd = sysAbort
	case kept:
		closeFd = sysFinish
	case reset:
		closeFd = sysReset
	}
	c.l.timers.stop(&c.timer)
	c.up.drop(c.l)
	c.down.drop(c.l)
	c.shut(&c.client, closeFd)
	c.shut(&c.endpoint, closeFd)
	if c.second != nil {
		c.hangUp(secondOne)
	}
	c.unkeep()
	if c.relays == longLivedAfter {
		c.l.load.Add(-1)
	}
	c.publish()
	c.Closed(now)
}

// publish stores what was carried so far for other goroutines to read.
func (c *conn) publish() {
	t := c.Traffic()
	c.up.publish(&t.FromClient, &t.ToEndpoint)
	c.down.publish(&t.FromEndpoint, &t.ToClient)
}

// guard has the death of this process reset the streams that go on: see socket.guard.
func (c *conn) guard() {
	if !c.down.eof {
		c.client.guard()
	}
	if !c.up.eof && c.endpoint.fd >= 0 {
		c.endpoint.guard()
	}
}

// unguard ends that.
func (c *conn) unguard() {
	c.client.unguard()
	c.endpoint.unguard()
}

// shut closes one socket. A closed descriptor leaves the epoll set by itself, unless somebody keeps it.
func (c *conn) shut(s *socket, closeFd func(int)) {
	if s.fd < 0 {
		return
	}
	switch {
	case s.watched && c.up.mem != nil:
		c.unwatch(s)
	case s.watched:
		c.l.forget(s.id)
		s.watched = false
	}
	closeFd(s.fd)
	s.fd, s.guarded = -1, false
}

func (c *conn) unwatch(s *socket) {
	if s.watched {
		c.l.unwatch(s.fd, s.id)
		s.watched = false
	}
}
