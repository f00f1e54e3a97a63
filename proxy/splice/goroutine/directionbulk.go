package goroutine

import (
	"io"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice/pipe"
)

// bulkAfter is the number of full reads in a row after which a direction carries bulk.
const bulkAfter = 2

// bulk carries bytes with fewer system calls than one read at a time. It returns false when the direction has ended.
func (d *direction) bulk() bool {
	if pipe.Supported {
		return d.splice()
	}
	return d.copy()
}

// Pipes are no longer used after as many loads in a row that are smaller than this, in bytes: among many streams each
// has a little now and then.
const (
	bulkEnds      = 8
	worthSplicing = 16 << 10
)

// splice carries loads through pipes. The next read gets anything that a pipe cannot take: the end, or an urgent byte.
func (d *direction) splice() bool {
	for small := 0; small < bulkEnds && d.c.payload.Load() == nil; {
		l, err := d.from.fill(d.c.e)
		if err != nil {
			d.readFailed(err)
			return false
		}
		if l.n == 0 {
			d.full = 0
			return d.pass(d.read())
		}
		if small++; l.n >= worthSplicing {
			small = 0
		}
		d.count(int64(l.n))
		if err := d.to.drain(l); err != nil {
			d.c.broken(d.to.side, err)
			return false
		}
	}
	d.full = 0
	return true
}

// One io.Copy ends after this many bytes or this time, so that traffic counters stay current, and an idle connection
// has no buffer.
const (
	copyBytes int64 = 1 << 20
	copyTime        = time.Second
)

// copy carries what comes with io.Copy, whose buffer is larger and kept. A short copy means EOF; the next read tells.
func (d *direction) copy() bool {
	account := d.c.e.core.Options().Account
	if account.Buffers.Exhausted() {
		return d.pass(d.read())
	}
	account.Buffers.Take()
	_ = d.from.tcp.SetReadDeadline(time.Now().Add(copyTime))
	d.c.copying.Add(1)
	defer d.c.copying.Add(-1)
	d.to.writes.RLock()
	n, err := io.Copy(mover{d}, &io.LimitedReader{R: d.from.tcp, N: copyBytes})
	d.from.bytes.Add(n) // not the first, of which the owner has to know
	d.to.bytes.Add(n)
	d.to.writes.RUnlock()
	_ = d.from.tcp.SetReadDeadline(time.Time{})
	account.Buffers.Give()
	if n < copyBytes {
		d.full = 0
	}
	switch {
	case err == nil:
		return true
	case deadlinePassed(err):
		return !d.interrupted(err)
	}
	d.c.broken(d.broke(), err)
	return false
}

// mover is a sink that notes each part: an io.Copy may end a second after the answer to what it carried.
type mover struct{ d *direction }

func (m mover) Write(b []byte) (int, error) {
	m.d.moved()
	return m.d.to.Write(b)
}

// broke returns the side that an io.Copy error came from. A broken source fails to read again; a healthy one times out.
func (d *direction) broke() record.Side {
	_ = d.from.tcp.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := d.from.tcp.Read(make([]byte, 1)); err != nil && !deadlinePassed(err) {
		return d.from.side
	}
	return d.to.side
}
