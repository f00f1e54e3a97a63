package goroutine

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// bufferSize is the size of the copy buffers, in bytes.
const bufferSize = 16 << 10

type buffer [bufferSize]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func takeBuffer() *buffer { return buffers.Get().(*buffer) }

// direction carries bytes from one socket to the other, on a goroutine of its own.
type direction struct {
	c        *conn
	from, to end
	full     int                 // buffers in a row that were
	keeps    bool                // what is read may have to be sent to another endpoint
	urgent   bool                // the byte in hand is its sender's urgent one
	blocked  *splice.BlockedTime // the destination
}

// end is one end of a direction.
type end struct {
	side  splice.Side
	tcp   *net.TCPConn
	raw   syscall.RawConn
	bytes *atomic.Int64 // that were read from it, or written to it
}

// carry starts the direction from the endpoint and runs the one from the client itself. False: no other step comes.
func (c *conn) carry(s splice.Step) (more bool) {
	c.mu.Lock()
	endpoint, early, replayable := c.endpoint, c.early, c.Replayable()
	c.mu.Unlock()
	t := c.Traffic()
	fromClient, _ := c.client.SyscallConn()
	fromEndpoint, _ := endpoint.SyscallConn()
	up := direction{c: c, from: end{splice.Client, c.client, fromClient, &t.FromClient},
		to: end{splice.Endpoint, endpoint, fromEndpoint, &t.ToEndpoint}, blocked: &c.endpointBlocked}
	down := direction{c: c, from: end{splice.Endpoint, endpoint, fromEndpoint, &t.FromEndpoint},
		to: end{splice.Client, c.client, fromClient, &t.ToClient}, blocked: &c.clientBlocked}
	if replayable {
		c.carryReplayable(s, &up, &down, early)
		return true
	}
	if s.Header != nil {
		if _, err := endpoint.Write(s.Header); err != nil {
			c.broken(splice.Endpoint, err)
			return false
		}
	}
	go down.run(nil)
	up.run(early)
	return false
}

// run copies until EOF or a socket error.
func (d *direction) run(early chan load) {
	if early != nil {
		l := <-early
		if !d.pass(l) {
			return
		}
	}
	for {
		if d.full >= bulkAfter && !d.keeps {
			if !d.bulk() {
				return
			}
			continue
		}
		if !d.pass(d.read()) {
			return
		}
	}
}

// pass forwards the result of a read. It returns false when the direction has ended.
func (d *direction) pass(l load) bool {
	if l.buf == nil { // it was forwarded already
		return true
	}
	if d.keeps && !d.keep(l) {
		return false
	}
	defer buffers.Put(l.buf)
	if l.n > 0 {
		d.count(int64(l.n))
		n, err := l.sent, l.sendErr
		if err == nil {
			n, err = d.send(l.buf[l.sent:l.n])
			n += l.sent
		}
		d.to.bytes.Add(int64(n))
		if err != nil {
			d.sendFailed(err)
			return false
		}
		if d.full++; l.n < bufferSize {
			d.full = 0
		}
	}
	switch {
	case l.err == io.EOF:
		d.end()
		return false
	case l.err != nil && d.from.side == splice.Endpoint:
		d.c.do(func(time.Duration) splice.Step { return d.c.endpointFailed(l.err) })
		return false
	case l.err != nil:
		d.c.broken(d.from.side, l.err)
		return false
	}
	return true
}

// count adds bytes that were read.
func (d *direction) count(n int64) {
	d.moved()
	if d.from.bytes.Add(n) == n && d.from.side == splice.Endpoint {
		d.c.do(func(now time.Duration) splice.Step {
			d.c.FirstByte(now)
			return splice.Step{}
		})
	}
}

// moved notes that bytes move. It comes before they are sent: else an answer to them could be noted first.
func (d *direction) moved() { d.c.Moved(d.c.e.core.Now(), d.from.side == splice.Client) }

// end forwards EOF as a half-close, and then waits for a reset by the sender.
func (d *direction) end() {
	more := d.c.do(func(now time.Duration) splice.Step {
		if d.c.restart.failure != nil && d.from.side == splice.Endpoint {
			return d.c.endpointFailed(nil)
		}
		s := d.c.EOF(d.from.side, now)
		if s.Kind == splice.StepHalfClose {
			_ = d.to.tcp.CloseWrite() // broken: its own direction says so
		}
		return s
	})
	ask := d.c.e.host.Error
	if !more || ask == nil {
		return
	}
	var pending error
	err := d.from.raw.Read(func(fd uintptr) bool {
		pending = ask(fd)
		return pending != nil
	})
	if err == nil {
		d.c.broken(d.from.side, pending)
	}
}
