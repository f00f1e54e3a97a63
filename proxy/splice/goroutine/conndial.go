package goroutine

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// watchedAfter is how long a dial may take before the client is watched for a reset. Most dials are faster.
const watchedAfter = 20 * time.Millisecond

// prepare begins a dial. It has a deadline of its own, so the timer is for another dial beside it. run makes one of
// two, and never has to make another as long as that is under way. mu is held.
func (c *conn) prepare(s splice.Step) {
	at := c.HedgeAt()
	c.setTimer(at)
	if at >= 0 && c.dials.ctx == nil {
		c.dials.ctx, c.dials.hangUp = context.WithCancel(c.ctx)
	}
	if s.Dial == 0 {
		c.steps <- s
	} else {
		go c.dialUnder(c.dials.ctx, s)
	}
}

// dials are the dials under way: one, or two at once.
type dials struct {
	ctx    context.Context // ends once one of two was answered; nil: there is one at most
	hangUp context.CancelFunc
}

// within returns the context of a dial of a connection.
func (d *dials) within(conn context.Context) context.Context {
	if d.ctx != nil {
		return d.ctx
	}
	return conn
}

// dial makes the dial that run finds.
func (c *conn) dial(s splice.Step) {
	c.mu.Lock()
	parent := c.dials.within(c.ctx)
	c.mu.Unlock()
	c.dialUnder(parent, s)
}

// dialUnder connects to an endpoint and reports the result to the core, unless another dial was faster. By then the
// connection may have left that endpoint, and other dials may be under way.
func (c *conn) dialUnder(parent context.Context, s splice.Step) {
	ctx, cancel := context.WithTimeout(parent, s.Until-c.e.core.Now())
	defer cancel()
	watch := time.AfterFunc(watchedAfter, func() {
		c.do(func(time.Duration) splice.Step {
			c.watchClient()
			return splice.Step{}
		})
	})
	socket, err := c.e.dialTCP(ctx, s)
	watch.Stop()
	overtaken := false
	open := c.do(func(now time.Duration) splice.Step {
		if overtaken = c.endpoint != nil || parent != c.dials.within(c.ctx); overtaken {
			return splice.Step{}
		}
		next := c.dialled(s.Dial, socket, err, now)
		if next.Kind == splice.StepNone { // the other dial goes on
			c.setTimer(c.HedgeAt())
		}
		return next
	})
	if (overtaken || !open) && err == nil {
		socket.Close()
	}
}

// dialled reports the result of an attempt to the core.
func (c *conn) dialled(d splice.Dial, socket *net.TCPConn, err error, now time.Duration) splice.Step {
	switch {
	case err == nil:
		c.endpoint = socket
		guard(socket)
		if c.dials.hangUp != nil {
			c.dials.hangUp()
		}
		c.Dialling(d, addrOf(socket.LocalAddr()))
		return c.Connected(d, now)
	case c.ctx.Err() != nil: // the engine ends
		return c.Abort(record.OutcomeCut)
	case deadlinePassed(err):
		return c.Failed(d, splice.ErrTimeout, splice.Enough, now)
	}
	lack := shortage(err)
	if lack != splice.Enough {
		c.e.core.Options().Warn(cause(err))
	}
	return c.Failed(d, cause(err), lack, now)
}

// watchClient reads the client's first bytes while an endpoint is dialled, so that a reset ends the dial. mu is held.
func (c *conn) watchClient() {
	if c.early != nil || c.endpoint != nil || c.restart.dropped { // connected meanwhile: its direction reads
		return
	}
	early := make(chan load, 1)
	c.early = early
	go func() {
		l := load{buf: takeBuffer()}
		l.n, l.err = c.client.Read(l.buf[:])
		early <- l
		if l.err != nil && l.err != io.EOF && !deadlinePassed(l.err) {
			c.broken(record.Client, l.err)
		}
	}()
}
