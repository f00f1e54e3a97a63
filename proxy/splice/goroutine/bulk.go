package goroutine

import (
	"io"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// bulkAfter is the number of full reads in a row after which a direction uses io.Copy.
const bulkAfter = 2

// One io.Copy ends after this many bytes or this time, so that traffic counters stay current.
const (
	spliceBytes int64 = 1 << 20
	spliceTime        = time.Second
)

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
