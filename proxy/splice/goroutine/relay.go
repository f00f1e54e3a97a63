package goroutine

import (
	"cmp"
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

// bulkAfter is the number of full reads in a row after which a direction uses io.Copy.
const bulkAfter = 2

// One io.Copy ends after this many bytes or this time, so that traffic counters stay current.
const (
	spliceBytes int64 = 1 << 20
	spliceTime        = time.Second
)

// direction carries bytes from one socket to the other, on a goroutine of its own.
type direction struct {
	c        *conn
	from, to end
	full     int  // buffers in a row that were
	urgent   bool // the byte in hand is its sender's urgent one
}

// end is one end of a direction.
type end struct {
	side  splice.Side
	tcp   *net.TCPConn
	raw   syscall.RawConn
	bytes *atomic.Int64 // that were read from it, or written to it
}

// carry starts the direction from the endpoint and runs the one from the client itself.
func (c *conn) carry(header []byte) {
	c.mu.Lock()
	endpoint, early := c.endpoint, c.early
	c.mu.Unlock()
	t := c.Traffic()
	fromClient, _ := c.client.SyscallConn()
	fromEndpoint, _ := endpoint.SyscallConn()
	up := direction{c: c, from: end{splice.Client, c.client, fromClient, &t.FromClient},
		to: end{splice.Endpoint, endpoint, fromEndpoint, &t.ToEndpoint}}
	down := direction{c: c, from: end{splice.Endpoint, endpoint, fromEndpoint, &t.FromEndpoint},
		to: end{splice.Client, c.client, fromClient, &t.ToClient}}
	if header != nil {
		if _, err := endpoint.Write(header); err != nil {
			c.broken(splice.Endpoint, err)
			return
		}
	}
	go down.run(nil)
	up.run(early)
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
		if d.full >= bulkAfter {
			if !d.splice() {
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
	defer buffers.Put(l.buf)
	if l.n > 0 {
		d.count(int64(l.n))
		n, err := d.send(l.buf[:l.n])
		d.to.bytes.Add(int64(n))
		if err != nil {
			d.c.broken(d.to.side, err)
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
	case l.err != nil:
		d.c.broken(d.from.side, l.err)
		return false
	}
	return true
}

// count adds bytes that were read.
func (d *direction) count(n int64) {
	now := d.c.e.core.Now()
	d.c.moved.Store(int64(now))
	if d.from.bytes.Add(n) == n && d.from.side == splice.Endpoint {
		d.c.do(func(now time.Duration) splice.Step {
			d.c.FirstByte(now)
			return splice.Step{}
		})
	}
}

// end forwards EOF as a half-close, and then waits for a reset by the sender.
func (d *direction) end() {
	more := d.c.do(func(now time.Duration) splice.Step {
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

// read waits for bytes. If Host.Receive or Host.Awaits is available, no buffer is held while it waits.
func (d *direction) read() (l load) {
	receive := d.c.e.host.Receive
	if receive == nil {
		err := d.await()
		l.buf = takeBuffer()
		if l.err = err; err == nil {
			l.n, l.err = d.from.tcp.Read(l.buf[:])
		}
		return l
	}
	err := d.from.raw.Read(func(fd uintptr) bool {
		l.buf = takeBuffer()
		l.n, d.urgent, l.err = receive(fd, l.buf[:])
		if l.err == syscall.EAGAIN {
			buffers.Put(l.buf)
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return load{buf: takeBuffer(), err: err}
	case l.n == 0 && l.err == nil:
		l.err = io.EOF
	}
	return l
}

// await waits until there is something to read, unless that is likely or the host cannot.
func (d *direction) await() error {
	if !d.c.e.host.Awaits || d.full > 0 {
		return nil
	}
	waited := false
	return d.from.raw.Read(func(uintptr) bool {
		before := waited
		waited = true
		return before
	})
}

// send writes b, as urgent data if it was received as such.
func (d *direction) send(b []byte) (n int, err error) {
	send := d.c.e.host.Send
	if send == nil {
		return d.to.tcp.Write(b)
	}
	urgent := d.urgent
	d.urgent = false
	failed := d.to.raw.Write(func(fd uintptr) bool {
		for n < len(b) && err == nil {
			var sent int
			sent, err = send(fd, b[n:], urgent)
			n += sent
		}
		if err == syscall.EAGAIN {
			err = nil
			return false
		}
		return true
	})
	return n, cmp.Or(failed, err)
}

// splice copies bulk with io.Copy. It returns false when the direction has ended. A short copy means EOF or an urgent
// byte; the next read tells which.
func (d *direction) splice() bool {
	account := d.c.e.core.Options().Account
	pages, ok := account.TakePipe()
	if !ok {
		return d.pass(d.read())
	}
	account.ResizePipe(splice.MaxPipePages - pages) // that of package net has 1 MiB
	_ = d.from.tcp.SetReadDeadline(time.Now().Add(spliceTime))
	n, err := d.to.tcp.ReadFrom(&io.LimitedReader{R: d.from.tcp, N: spliceBytes})
	_ = d.from.tcp.SetReadDeadline(time.Time{})
	account.GivePipe(splice.MaxPipePages)
	if n > 0 {
		d.count(n)
		d.to.bytes.Add(n)
	}
	if n < spliceBytes {
		d.full = 0
	}
	if err == nil || deadlinePassed(err) {
		return true
	}
	d.c.broken(d.broke(), err)
	return false
}

// broke returns the side that an io.Copy error came from. A broken source fails to read again; a healthy one times out.
func (d *direction) broke() splice.Side {
	_ = d.from.tcp.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := d.from.tcp.Read(make([]byte, 1)); err != nil && !deadlinePassed(err) {
		return d.from.side
	}
	return d.to.side
}
