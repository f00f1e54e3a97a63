package goroutine

import (
	"io"
	"syscall"
)

// read waits for bytes. If Host.Receive or Host.Awaits is available, it has no buffer while it waits.
func (d *direction) read() (l load) {
	if d.c.e.host.Receive == nil {
		var err error
		if d.c.e.host.Awaits && d.full == 0 { // else the next bytes are likely there
			err = await(d.from.raw)
		}
		l.buf = takeBuffer()
		if l.err = err; err == nil {
			l.n, l.err = d.from.tcp.Read(l.buf[:])
		}
		return l
	}
	err := d.from.raw.Read(func(fd uintptr) bool { return d.receive(fd, &l) })
	switch {
	case err != nil:
		return load{buf: takeBuffer(), err: err}
	case l.n == 0 && l.err == nil && l.buf != nil:
		l.err = io.EOF
	}
	return l
}

// receive reads what there is, and forwards it at once if it can. It returns false if there is nothing more to read,
// and the caller waits. The load is empty if it was forwarded.
func (d *direction) receive(fd uintptr, l *load) (ready bool) {
	l.buf = takeBuffer()
	var drained bool
	l.n, d.urgent, drained, l.err = d.c.e.host.Receive(fd, l.buf[:])
	switch {
	case l.err == syscall.EAGAIN:
		ready = false
	case d.forward(l):
		ready = !drained
	default:
		l.gone = l.n == 0 && drained
		return true
	}
	buffers.Put(l.buf)
	*l = load{}
	return ready
}

// forward sends a small load if the destination takes all of it at once. It must not wait, nor wait for the owner: to
// close the source is to wait for this.
func (d *direction) forward(l *load) bool {
	first := d.from.bytes.Load() == 0 // the owner has to know
	if l.err != nil || l.n == 0 || l.n == bufferSize || d.urgent || d.keeps || first {
		return false
	}
	d.moved()
	failed := d.to.raw.Control(func(fd uintptr) { l.sent, l.sendErr = d.c.e.host.Send(fd, l.buf[:l.n], false) })
	d.to.bytes.Add(int64(l.sent))
	if failed != nil || l.sendErr == syscall.EAGAIN {
		l.sendErr = failed
		return false
	}
	if l.sendErr != nil || l.sent < l.n {
		return false
	}
	d.observePayload(l.buf[:l.n])
	d.from.bytes.Add(int64(l.n))
	d.full = 0
	return true
}

// send writes b, as urgent data if it was received as such, and counts it.
func (d *direction) send(b []byte) error {
	urgent := d.urgent
	d.urgent = false
	return d.to.send(b, urgent)
}
