package goroutine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// conn is a splice.Conn with its sockets. The goroutine that holds mu owns the Conn.
type conn struct {
	splice.Conn
	e      *shared
	client *net.TCPConn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	steps  chan splice.Step // StepDial and StepCarry, for run; closed at the end

	clientBlocked, endpointBlocked splice.BlockedTime

	payload atomic.Pointer[payload.Keeper] // is shown what is read; nil: nobody wants it

	copying atomic.Int32 // directions with bytes that are not counted yet
	writes  sync.RWMutex // held to read from before bytes are written until they are counted, without a wait for mu

	mu       sync.Mutex
	endpoint *net.TCPConn // guarded by mu; nil: none is connected
	dials    dials        // guarded by mu
	alarm    alarm        // guarded by mu
	restart  restart      // guarded by mu
	ending   ending       // guarded by mu
	closed   bool         // guarded by mu
	early    chan load    // guarded by mu; what a client sends while an endpoint is dialled; nil: it is not watched
}

// mostSteps is how many steps run may find at once: one of a dial, and one to carry by a dial beside it that was
// faster.
const mostSteps = 2

// serve starts an accepted connection.
func serve(e *shared, f *splice.Front, client *net.TCPConn) {
	if !e.begin() {
		reset(client)
		return
	}
	guard(client)
	c := &conn{e: e, client: client, steps: make(chan splice.Step, mostSteps)}
	c.ctx, c.cancel = context.WithCancel(e.ctx)
	c.Accept(f, owner{c}, addrOf(client.RemoteAddr()), e.core.Now())
	go c.run()
}

// run admits the connection, dials, and then carries one direction.
func (c *conn) run() {
	c.do(func(now time.Duration) splice.Step { return c.Admit(originalDst(c.e.core.Options(), c.client), now) })
	for s := range c.steps {
		if s.Kind != splice.StepCarry {
			c.dial(s)
		} else if !c.carry(s) {
			return
		}
	}
}

// originalDst returns which address a client has dialled.
func originalDst(o *splice.Options, client *net.TCPConn) (dst netip.AddrPort) {
	family := inet.FamilyOf(addrOf(client.RemoteAddr()).Addr())
	err := errors.ErrUnsupported
	if o.OriginalDst != nil {
		control(client, func(fd uintptr) { dst, err = o.OriginalDst(int(fd), family) })
	}
	if err != nil {
		return addrOf(client.LocalAddr())
	}
	return dst
}

// do calls next as the owner and executes the step that it returns. It returns false if the connection is closed.
func (c *conn) do(next func(now time.Duration) splice.Step) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.perform(next(c.e.core.Now()))
	return true
}

// perform executes a step of the core. mu is held.
func (c *conn) perform(s splice.Step) {
	if s.Drop {
		c.leaveEndpoint()
	}
	switch s.Kind {
	case splice.StepDial:
		c.prepare(s)
	case splice.StepCarry:
		c.setTimer(s.Until)
		c.steps <- s
	case splice.StepWait:
		c.watchClient()
		c.setTimer(s.Until)
	case splice.StepHalfClose:
		c.setTimer(s.Until)
	case splice.StepEnd:
		if s.Deliver != 0 && c.endpoint != nil {
			c.deliver(s.Deliver)
		} else {
			c.close(s.Reset)
		}
	}
}

// setTimer arms the timer that calls Expired; a negative time disarms it. mu is held.
func (c *conn) setTimer(until time.Duration) {
	c.alarm.stop()
	if until >= 0 {
		set := c.alarm.set
		c.alarm.timer = time.AfterFunc(until-c.e.core.Now(), func() { c.expired(set) })
	}
}

// alarm is the timer of a connection.
type alarm struct {
	timer *time.Timer
	set   uint64 // how many were set: an earlier one may have fired, and wait for mu
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.set++
}

// expired runs when timer number set fires. It does nothing if the timer was replaced meanwhile.
func (c *conn) expired(set uint64) {
	c.do(func(now time.Duration) splice.Step {
		switch {
		case set != c.alarm.set:
		case c.ending.delivery != nil:
			c.look()
		default:
			return c.Expired(now)
		}
		return splice.Step{}
	})
}

// close closes both sockets, which unblocks every goroutine of the connection. mu is held.
func (c *conn) close(byReset bool) {
	c.closed = true
	c.setTimer(-1)
	c.cancel()
	now := c.e.core.Now()
	rec := c.Record()
	rec.ClientBlocked, rec.EndpointBlocked = c.clientBlocked.Until(now), c.endpointBlocked.Until(now)
	if c.e.core.Options().TCPInfo {
		rec.ClientTCP, rec.EndpointTCP = c.e.host.tcpInfo(c.client), c.e.host.tcpInfo(c.endpoint)
	}
	for _, socket := range []*net.TCPConn{c.client, c.endpoint} {
		switch {
		case socket == nil:
		case byReset:
			reset(socket)
		default:
			unguard(socket)
			socket.Close()
		}
	}
	c.writes.Lock() // they fail now, or are done: what they wrote belongs in the record
	c.Closed(now)
	c.writes.Unlock()
	close(c.steps)
	c.e.live.Done()
}

// broken ends the connection after a socket error of one side.
func (c *conn) broken(side record.Side, err error) {
	c.do(func(time.Duration) splice.Step { return c.brokenBy(side, err) })
}

func (c *conn) socketOf(side record.Side) *net.TCPConn {
	if side == record.Client {
		return c.client
	}
	return c.endpoint
}
