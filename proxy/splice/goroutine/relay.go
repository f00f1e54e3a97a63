package goroutine

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// bufferSize is what one read brings at most. Go's own splice moves up to 1 MiB.
const bufferSize = 16 << 10

type buffer [bufferSize]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func takeBuffer() *buffer { return buffers.Get().(*buffer) }

// bulkAfter is how many full buffers in a row are bulk, which is worth a splice.
const bulkAfter = 2

// One splice ends after so many bytes or so much time, for others to see what was carried. It is an int64 for io.
const (
	spliceBytes int64 = 1 << 20
	spliceTime        = time.Second
)

// direction carries bytes from one socket to the other, on a goroutine of its own.
type direction struct {
	c        *conn
	from, to splice.Side
	src, dst *net.TCPConn
	in, out  *atomic.Int64
	full     int // buffers in a row that were
	raw      syscall.RawConn
	urgent   bool // the byte in hand is its sender's urgent one
}

// carry carries both directions, one of them itself. It returns when that one has ended.
func (c *conn) carry(header []byte) {
	c.mu.Lock()
	endpoint, early := c.endpoint, c.early
	c.mu.Unlock()
	t := c.Traffic()
	up := direction{c: c, from: splice.Client, to: splice.Endpoint, src: c.client, dst: endpoint, in: &t.FromClient,
		out: &t.ToEndpoint}
	down := direction{c: c, from: splice.Endpoint, to: splice.Client, src: endpoint, dst: c.client, in: &t.FromEndpoint,
		out: &t.ToClient}
	if header != nil {
		if _, err := endpoint.Write(header); err != nil {
			c.broken(splice.Endpoint, err)
			return
		}
	}
	go down.run(nil)
	up.run(early)
}

// run carries until the stream ends or either side breaks.
func (d *direction) run(early chan load) {
	d.raw, _ = d.src.SyscallConn()
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

// pass sends on what a read brought. False: the direction is over.
func (d *direction) pass(l load) bool {
	defer buffers.Put(l.buf)
	if l.n > 0 {
		d.count(int64(l.n))
		n, err := d.send(l.buf[:l.n])
		d.out.Add(int64(n))
		if err != nil {
			d.c.broken(d.to, err)
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
		d.c.broken(d.from, l.err)
		return false
	}
	return true
}

// count notes that bytes have come.
func (d *direction) count(n int64) {
	now := d.c.e.core.Now()
	d.c.moved.Store(int64(now))
	if d.in.Add(n) == n && d.from == splice.Endpoint {
		d.c.do(func(now time.Duration) splice.Step {
			d.c.FirstByte(now)
			return splice.Step{}
		})
	}
}

// end passes the end of the stream on, and notices whether its sender resets the connection later.
func (d *direction) end() {
	more := d.c.do(func(now time.Duration) splice.Step {
		s := d.c.EOF(d.from, now)
		if s.Kind == splice.StepHalfClose {
			_ = d.dst.CloseWrite() // broken: its own direction says so
		}
		return s
	})
	ask := d.c.e.host.Error
	if !more || ask == nil {
		return
	}
	var pending error
	err := d.raw.Read(func(fd uintptr) bool {
		pending = ask(fd)
		return pending != nil
	})
	if err == nil {
		d.c.broken(d.from, pending)
	}
}

// read waits for bytes. Where the host can, no buffer is held meanwhile.
func (d *direction) read() (l load) {
	receive := d.c.e.host.Receive
	if receive == nil {
		l.buf = takeBuffer()
		l.n, l.err = d.src.Read(l.buf[:])
		return l
	}
	err := d.raw.Read(func(fd uintptr) bool {
		l.buf = takeBuffer()
		l.n, d.urgent, l.err = receive(fd, l.buf[:])
		if errors.Is(l.err, syscall.EAGAIN) {
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

// send writes all of a load.
func (d *direction) send(b []byte) (n int, err error) {
	if !d.urgent {
		return d.dst.Write(b)
	}
	d.urgent = false
	raw, err := d.dst.SyscallConn()
	if err != nil {
		return 0, err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = d.c.e.host.SendUrgent(fd, b)
		return !errors.Is(sent, syscall.EAGAIN)
	})
	if err = errors.Join(err, sent); err != nil {
		return 0, err
	}
	return len(b), nil
}

// splice moves bulk. False: the direction is over. That it moved less than asked for may be the end of the stream or an
// urgent byte before it: a read tells.
func (d *direction) splice() bool {
	pages, ok := d.c.e.core.Options().Account.TakePipe()
	if !ok {
		return d.pass(d.read())
	}
	_ = d.src.SetReadDeadline(time.Now().Add(spliceTime))
	n, err := d.dst.ReadFrom(&io.LimitedReader{R: d.src, N: spliceBytes})
	_ = d.src.SetReadDeadline(time.Time{})
	d.c.e.core.Options().Account.GivePipe(pages)
	if n > 0 {
		d.count(n)
		d.out.Add(n)
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

// broke is which side an error of a splice is about: one that is no more has nothing to read, not even after a moment.
func (d *direction) broke() splice.Side {
	_ = d.src.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := d.src.Read(make([]byte, 1)); err != nil && !deadlinePassed(err) {
		return d.from
	}
	return d.to
}
