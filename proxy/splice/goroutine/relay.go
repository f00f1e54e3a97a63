package goroutine

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/record"
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
	eof      bool                // its stream has ended
	blocked  *splice.BlockedTime // the destination
}

// end is one end of a direction.
type end struct {
	side  record.Side
	tcp   *net.TCPConn
	raw   syscall.RawConn
	bytes *atomic.Int64 // that were read from it, or written to it
}

// carry starts the direction from the endpoint and runs the one from the client itself. False: no other step comes.
func (c *conn) carry(s splice.Step) (more bool) {
	c.mu.Lock()
	c.done = 0
	endpoint, early, replayable := c.endpoint, c.early, c.Replayable()
	c.mu.Unlock()
	t := c.Traffic()
	fromClient, _ := c.client.SyscallConn()
	fromEndpoint, _ := endpoint.SyscallConn()
	up := direction{c: c, from: end{record.Client, c.client, fromClient, &t.FromClient},
		to: end{record.Endpoint, endpoint, fromEndpoint, &t.ToEndpoint}, blocked: &c.endpointBlocked}
	down := direction{c: c, from: end{record.Endpoint, endpoint, fromEndpoint, &t.FromEndpoint},
		to: end{record.Client, c.client, fromClient, &t.ToClient}, blocked: &c.clientBlocked}
	if replayable {
		c.carryReplayable(s, &up, &down, early)
		return true
	}
	go down.run(nil)
	if s.Header != nil {
		if _, err := endpoint.Write(s.Header); err != nil {
			up.sendFailed(err)
			up.over()
			return false
		}
	}
	up.run(early)
	return false
}

// run copies until EOF or a socket error.
func (d *direction) run(early chan load) {
	d.carry(early)
	discards := d.over()
	switch {
	case d.eof:
		d.awaitReset()
	case discards:
		d.discard()
	}
}

func (d *direction) carry(early chan load) {
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
		d.end(l.gone)
		return false
	case l.err != nil:
		d.readFailed(l.err)
		return false
	}
	return true
}

// readFailed is called for an error of the source, or once it is not to be read any more.
func (d *direction) readFailed(err error) {
	switch {
	case d.interrupted(err):
	case d.from.side == record.Endpoint:
		d.c.do(func(time.Duration) splice.Step { return d.c.endpointFailed(err) })
	default:
		d.c.broken(d.from.side, err)
	}
}

// count adds bytes that were read.
func (d *direction) count(n int64) {
	d.moved()
	d.add(n)
}

func (d *direction) add(n int64) {
	if d.from.bytes.Add(n) == n && d.from.side == record.Endpoint {
		d.c.do(func(now time.Duration) splice.Step {
			d.c.FirstByte(now)
			return splice.Step{}
		})
	}
}

// moved notes that bytes move. It comes before they are sent: else an answer to them could be noted first.
func (d *direction) moved() { d.c.Moved(d.c.e.core.Now(), d.from.side == record.Client) }

// end forwards EOF as a half-close. gone: the connection was reset too, and the end may be that of what it has left.
func (d *direction) end(gone bool) {
	d.eof = true
	d.c.do(func(now time.Duration) splice.Step {
		if d.c.delivery != nil {
			if d.c.fault.ended {
				closeWrite(d.to.tcp)
			}
			return splice.Step{}
		}
		if d.c.restart.failure != nil && d.from.side == record.Endpoint {
			return d.c.endpointFailed(nil)
		}
		var pending error
		if gone && !d.c.HalfClosed() { // else the other way was closed here
			if pending = d.c.pendingError(d.from.tcp); pending == nil { // a send has taken it, and is about to tell
				d.c.restart.gone = d.from.side == record.Endpoint
				return splice.Step{}
			}
		}
		s := d.c.EOF(d.from.side, now)
		if s.Kind == splice.StepHalfClose {
			closeWrite(d.to.tcp)
		}
		if pending != nil && s.Kind == splice.StepHalfClose {
			d.c.perform(s)
			return d.c.brokenBy(d.from.side, pending)
		}
		return s
	})
}

// pendingError takes the error of a socket, if there is one and the host tells.
func (c *conn) pendingError(of *net.TCPConn) (pending error) {
	if ask := c.e.host.Error; ask != nil {
		control(of, func(fd uintptr) { pending = ask(fd) })
	}
	return pending
}

// awaitReset waits for a reset by a sender whose stream has ended.
func (d *direction) awaitReset() {
	ask := d.c.e.host.Error
	if ask == nil {
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
