package goroutine

import (
	"io"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// direction carries bytes from one socket of a connection to the other, on a goroutine of its own.
type direction struct {
	c      *conn
	from   source
	to     sink
	full   int  // buffers in a row that were
	keeps  bool // bytes that are read may have to be sent to another endpoint
	urgent bool // the byte in hand is its sender's urgent one
	eof    bool // its stream has ended
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
		if d.full >= bulkAfter && !d.keeps && d.c.payload.Load() == nil {
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
		d.observePayload(l.buf[:l.n])
		d.count(int64(l.n))
		err := l.sendErr
		if err == nil {
			err = d.send(l.buf[l.sent:l.n])
		}
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

// observePayload passes bytes to who keeps payload, before they count.
func (d *direction) observePayload(b []byte) {
	if k := d.c.payload.Load(); k != nil {
		to := &k.FromClient
		if d.from.side == record.Endpoint {
			to = &k.FromEndpoint
		}
		to.Observe(d.from.bytes.Load(), b)
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

// end forwards EOF as a half-close. gone: the connection was reset too, and the end may be the end of its remaining
// bytes.
func (d *direction) end(gone bool) {
	d.eof = true
	d.c.do(func(now time.Duration) splice.Step {
		if d.c.ending.delivery != nil {
			if d.c.ending.fault.ended {
				closeWrite(d.to.tcp)
			}
			return splice.Step{}
		}
		if d.c.restart.failure != nil && d.from.side == record.Endpoint {
			return d.c.endpointFailed(nil)
		}
		var pending error
		if gone && !d.c.HalfClosed() { // else the other way was closed here
			if pending = d.c.e.host.pendingError(d.from.tcp); pending == nil { // a send has taken it, and is about to tell
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

// awaitReset waits for a reset by a sender whose stream has ended.
func (d *direction) awaitReset() {
	pendingError := d.c.e.host.Error
	if pendingError == nil {
		return
	}
	var pending error
	err := d.from.raw.Read(func(fd uintptr) bool {
		pending = pendingError(fd)
		return pending != nil
	})
	if err == nil {
		d.c.broken(d.from.side, pending)
	}
}
