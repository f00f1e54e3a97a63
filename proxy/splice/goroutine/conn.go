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
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// conn is a splice.Conn with its sockets. The goroutine that holds mu owns the Conn.
type conn struct {
	splice.Conn
	e      *Engine
	client *net.TCPConn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	steps  chan splice.Step // StepDial and StepCarry, for run; closed at the end
	dials  context.Context  // ends once one of two dials was answered; nil: there is one at most
	hangUp context.CancelFunc

	clientBlocked, endpointBlocked splice.BlockedTime

	copying atomic.Int32 // directions with bytes that are not counted yet

	mu       sync.Mutex
	endpoint *net.TCPConn   // guarded by mu; nil: none is connected
	timer    *time.Timer    // guarded by mu
	timers   uint64         // guarded by mu; how many were set
	restart  restart        // guarded by mu
	done     splice.Streams // guarded by mu: of which nothing more is passed on
	delivery *delivery      // guarded by mu; nil: the connection has not ended
	fault    fault          // guarded by mu
	closed   bool           // guarded by mu
	early    chan load      // guarded by mu; what a client sends while an endpoint is dialled; nil: it is not watched
}

// mostSteps is how many steps run may find at once: that of a dial, and that of carrying by a dial beside it that was
// faster.
const mostSteps = 2

// load is the result of one read.
type load struct {
	buf     *buffer
	n       int
	err     error
	urgent  bool // it is the client's urgent byte
	gone    bool // at the end of the stream: the connection is no more
	sent    int  // of n, that were sent already
	sendErr error
}

// serve starts an accepted connection.
func (e *Engine) serve(f *splice.Front, client *net.TCPConn) {
	if !e.begin() {
		reset(client)
		return
	}
	guard(client)
	c := &conn{e: e, client: client, steps: make(chan splice.Step, mostSteps)}
	c.ctx, c.cancel = context.WithCancel(e.ctx)
	c.Accept(f, c, addrOf(client.RemoteAddr()), e.core.Now())
	go c.run()
}

// run admits the connection, dials, and then carries one direction.
func (c *conn) run() {
	c.do(func(now time.Duration) splice.Step { return c.Admit(c.originalDst(), now) })
	for s := range c.steps {
		if s.Kind != splice.StepCarry {
			c.dial(s)
		} else if !c.carry(s) {
			return
		}
	}
}

func (c *conn) originalDst() (dst netip.AddrPort) {
	family := inet.FamilyOf(addrOf(c.client.RemoteAddr()).Addr())
	err := errors.ErrUnsupported
	if ask := c.e.core.Options().OriginalDst; ask != nil {
		control(c.client, func(fd uintptr) { dst, err = ask(int(fd), family) })
	}
	if err != nil {
		return addrOf(c.client.LocalAddr())
	}
	return dst
}

// Interface implements splice.Owner.
func (c *conn) Interface() (index int) {
	if c.e.host.Interface == nil {
		return 0
	}
	family := inet.FamilyOf(addrOf(c.client.RemoteAddr()).Addr())
	control(c.client, func(fd uintptr) { index = c.e.host.Interface(fd, family) })
	return index
}

// TCPInfo implements splice.Owner.
func (c *conn) TCPInfo(tell func(client, endpoint record.TCPInfo)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tell(c.tcpInfo())
}

// tcpInfo returns that of both sockets, as far as they are open and the host tells. mu is held.
func (c *conn) tcpInfo() (client, endpoint record.TCPInfo) {
	if ask := c.e.host.TCPInfo; ask != nil {
		control(c.client, func(fd uintptr) { client = ask(fd) })
		if c.endpoint != nil {
			control(c.endpoint, func(fd uintptr) { endpoint = ask(fd) })
		}
	}
	return client, endpoint
}

// Post implements splice.Owner.
func (c *conn) Post(next func(now time.Duration) splice.Step) { go c.do(next) }

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
		c.drop()
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
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timers++
	if set := c.timers; until >= 0 {
		c.timer = time.AfterFunc(until-c.e.core.Now(), func() { c.expired(set) })
	}
}

// expired runs when timer number set fires. It does nothing if the timer was replaced meanwhile.
func (c *conn) expired(set uint64) {
	c.do(func(now time.Duration) splice.Step {
		switch {
		case set != c.timers:
		case c.delivery != nil:
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
	c.SetBlocked(c.clientBlocked.Until(now), c.endpointBlocked.Until(now))
	if c.WantsTCPInfo() {
		c.SetTCPInfo(c.tcpInfo())
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
	c.Closed(now)
	close(c.steps)
	c.e.live.Done()
}

// guard has the death of this process reset a connection, whose peer else would see a FIN: the end of a stream that has
// not ended.
func guard(socket *net.TCPConn) { _ = socket.SetLinger(0) } // fails if it is broken

// unguard ends that. A socket that is closed by a FIN must not be guarded.
func unguard(socket *net.TCPConn) { _ = socket.SetLinger(-1) }

// closeWrite closes a socket for writing: its peer sees a FIN, and the kernel sends what is before that, whoever dies.
func closeWrite(socket *net.TCPConn) {
	unguard(socket)
	_ = socket.CloseWrite() // broken: its own direction says so
}

// reset closes a socket so that its peer sees a reset.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

// broken ends the connection after a socket error of one side.
func (c *conn) broken(side record.Side, err error) {
	c.do(func(time.Duration) splice.Step { return c.brokenBy(side, err) })
}

// Detach implements splice.Owner: goroutines wait in the middle of what they do, so a connection stays where it is.
func (c *conn) Detach(tell func(*splice.Departure)) { tell(nil) }

// Unkept implements splice.Owner.
func (c *conn) Unkept() {}

// Keep implements splice.Owner: what goroutines do is noted nowhere.
func (c *conn) Keep(tell func(*splice.Kept)) { tell(nil) }
