package goroutine

import (
	"io"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// restart takes a connection to another endpoint: its directions end, and two more begin.
type restart struct {
	dropped bool   // the endpoint was left, and both directions are to end
	unsent  []load // read of the client and not sent to an endpoint yet, for the next one
	failure error  // of a send to the endpoint: the direction from it tells what became of it
	gone    bool   // that one has ended by such a failure before it was told
}

// unreadTime bounds how long the direction from an endpoint may read remaining bytes, once nothing can be sent to it.
const unreadTime = time.Second

// keep keeps what an endpoint was not sent, in its order: early comes at once now.
func (r *restart) keep(unsent []load, early chan load) {
	r.unsent = append(r.unsent, unsent...)
	if early == nil {
		return
	}
	if l := <-early; l.err == nil {
		r.unsent = append(r.unsent, l)
	} else { // interrupted, or it is read again
		buffers.Put(l.buf)
	}
}

// again sends the bytes that come before the next ones read from the client. False: it could not.
func (d *direction) again(s splice.Step) bool {
	if s.Header != nil {
		if _, err := d.to.tcp.Write(s.Header); err != nil {
			d.sendFailed(err)
			return false
		}
	}
	d.to.bytes.Store(0)
	if s.Again == nil {
		return true
	}
	account := d.c.e.core.Options().Account
	account.Buffers.Take() // the core may forget it meanwhile
	defer account.Buffers.Give()
	err := d.send(s.Again)
	if err != nil {
		d.sendFailed(err)
	}
	return err == nil
}

// keep keeps what was read of the client before it is sent, in case another endpoint has to get it. False: only the
// next endpoint gets it.
func (d *direction) keep(l load) bool {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	r := &d.c.restart
	switch {
	case l.err != nil && l.err != io.EOF && !(r.dropped && deadlinePassed(l.err)):
	case r.dropped && l.err == nil:
		l.urgent = d.urgent
		r.unsent = append(r.unsent, l)
		return false
	case r.dropped: // interrupted, or the end of the stream, which is read again
		buffers.Put(l.buf)
		return false
	case d.urgent:
		d.c.Replay().Forget()
		d.keeps = false
	case l.n > 0:
		d.keeps = d.c.Replay().Sent(l.buf[:l.n])
	}
	return true
}

// sendFailed is called for an error of the destination. As long as the connection may go to another endpoint, the other
// direction tells whether it does: a byte of the endpoint may have come.
func (d *direction) sendFailed(err error) {
	d.c.do(func(time.Duration) splice.Step {
		if d.keeps && d.c.Replay().Possible() {
			d.c.restart.failure = err
			if d.c.restart.gone {
				return d.c.endpointFailed(nil)
			}
			_ = d.to.tcp.SetReadDeadline(time.Now().Add(unreadTime))
			return splice.Step{}
		}
		return d.c.brokenBy(d.to.side, err)
	})
}
