package goroutine

import (
	"time"

	"github.com/portald/portald/proxy/splice"
)

// over notes that the direction passes on nothing any more. It returns true if what else its source sends is to be
// discarded, so that a peer goes on that sends before it reads.
func (d *direction) over() (discards bool) {
	c := d.c
	c.mu.Lock()
	defer c.mu.Unlock()
	stream := splice.StreamFrom(d.from.side)
	c.ending.done |= stream
	if c.closed || c.ending.delivery == nil {
		return false
	}
	c.look()
	return !c.closed && c.ending.delivery.streams&stream == 0
}

// discard reads what nobody is left for, until the connection is closed.
func (d *direction) discard() {
	_ = d.from.tcp.SetReadDeadline(time.Time{}) // closed: the read says so
	buf := takeBuffer()
	defer buffers.Put(buf)
	for {
		n, err := d.from.tcp.Read(buf[:])
		d.from.bytes.Add(int64(n))
		if err != nil {
			d.readFailed(err)
			return
		}
	}
}

// interrupted tells whether a read has failed because the connection has ended, and passes on what can be read at once.
func (d *direction) interrupted(err error) bool {
	if !deadlinePassed(err) || !d.c.delivers() {
		return false
	}
	receive, queues := d.c.e.host.Receive, d.c.e.host.Queues
	if receive == nil || queues == nil {
		return true
	}
	var left int
	control(d.from.tcp, func(fd uintptr) { left, _ = queues(fd) })
	for left > 0 {
		var n int
		buf := takeBuffer()
		control(d.from.tcp, func(fd uintptr) { n, d.urgent, _, _ = receive(fd, buf[:]) })
		if n <= 0 {
			buffers.Put(buf)
			break
		}
		if left -= n; !d.pass(load{buf: buf, n: n}) {
			break
		}
	}
	return true
}
