package splice

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// turnBytes is what one direction may carry before the loop's other connections have a turn.
const turnBytes = 4 << 20

// flow is one direction. What it holds (a buffer or a pipe with bytes in it) is borrowed only while the destination does
// not take them: an idle connection holds nothing but its two sockets.
type flow struct {
	carried int64
	full    uint8 // reads in a row that filled the buffer; from bulkAfter on it splices
	eof     bool  // the source's FIN was read
	done    bool  // and all before it was passed on

	buf    *[bufferSize]byte // holds rest, when not nil
	rest   []byte
	pipe   pipe
	inPipe int // bytes; the pipe is borrowed while positive
}

// bulkAfter is how many full reads in a row make bulk.
const bulkAfter = 2

// verdict is how a turn of a flow ended.
type verdict uint8

const (
	waits   verdict = iota // for the source or the destination
	more                   // the turn was used up
	ended                  // the source's FIN is due at the destination
	srcGone                // an error of the source; errno tells
	dstGone                // an error of the destination
)

// note keeps what an event said.
func (s *end) note(events uint32) {
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.readable = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.hup = true
	}
	if events&unix.EPOLLERR != 0 {
		s.broken = true
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.writable = true
	}
}

// begin gives a connection its first turn, on the loop that carries it. The client's first bytes are in most likely, so
// they are passed on before the client is watched: its first event is then about something new.
func (c *conn) begin() {
	if !c.endpoint.watched {
		if e := c.l.watchEnd(c, &c.endpoint, tagEndpoint, streamEvents); e != 0 {
			c.refuse(OutcomeResources)
			return
		}
	}
	c.client.readable, c.client.writable, c.endpoint.writable = true, true, true
	if idle := c.front.engine.opts.Idle; idle > 0 {
		c.l.timers.set(&c.timer, c.l.now+idle)
	}
	c.relay()
	if c.stage != relaying {
		return
	}
	events := uint32(streamEvents)
	if c.client.writable {
		events &^= unix.EPOLLOUT // asked for when the client does not take what it gets
	}
	if e := c.l.watchEnd(c, &c.client, tagClient, events); e != 0 {
		c.refuse(OutcomeResources)
	}
}

func (l *loop) watchEnd(c *conn, s *end, tag uint8, events uint32) syscall.Errno {
	id, e := l.watch(s.fd, events, c, tag)
	s.id, s.watched, s.forOut = id, e == 0, events&unix.EPOLLOUT != 0
	return e
}

// full notes that an end takes no more, and has the loop told when it does again.
func (s *end) full(l *loop) {
	s.writable = false
	if s.watched && !s.forOut {
		s.forOut = true
		l.rewatch(s.fd, s.id, streamEvents)
	}
}

// relay gives both directions a turn and ends the connection when both are done or one of the ends is gone.
func (c *conn) relay() {
	if c.stage != relaying {
		return
	}
	moved := c.up.carried + c.down.carried
	up, e := c.up.turn(c.l, &c.client, &c.endpoint)
	if up >= srcGone {
		c.gone(up == srcGone, e)
		return
	}
	had := c.down.carried
	down, e := c.down.turn(c.l, &c.endpoint, &c.client)
	if had == 0 && c.down.carried > 0 {
		c.rec.FirstByte = c.l.clock() - c.accepted
	}
	if down >= srcGone {
		c.gone(down == dstGone, e)
		return
	}
	if c.up.carried+c.down.carried != moved {
		c.last = c.l.now
	}
	// An end that broke while nothing is read from it: its direction is over already, or stuck at the other end.
	switch {
	case c.client.broken && up != more:
		c.gone(true, sysError(c.client.fd))
	case c.endpoint.broken && down != more:
		c.gone(false, sysError(c.endpoint.fd))
	default:
		c.after(up, down)
	}
}

// after settles what comes next once neither end is gone.
func (c *conn) after(up, down verdict) {
	if c.ended == "" && (up == ended || down == ended) {
		c.halfClose(up == ended, down == ended)
	}
	switch {
	case up == ended && down == ended:
		c.finish(c.ended, FIN, OutcomeOK, sysClose) // which passes the second FIN on
	case (up == more || down == more) && !c.queued:
		c.queued = true
		c.l.again = append(c.l.again, c)
	}
}

// halfClose passes the first FIN on and starts the clock for the other direction.
func (c *conn) halfClose(up, down bool) {
	c.ended = Endpoint
	to := &c.client
	if up {
		c.ended, to = Client, &c.endpoint
	}
	if !up || !down {
		sysShutdownWrite(to.fd)
	}
	c.last = c.l.now
	c.l.timers.set(&c.timer, c.l.now+c.patience())
}

// gone ends a connection one end of which is no more; the other end sees a reset.
func (c *conn) gone(client bool, e syscall.Errno) {
	lost := e == unix.ETIMEDOUT || e == unix.EHOSTUNREACH || e == unix.ENETUNREACH
	switch {
	case client && lost:
		c.fail(Client, Timeout, OutcomeClientLost)
	case client:
		c.fail(Client, Reset, OutcomeClientReset)
	case lost:
		c.fail(Endpoint, Timeout, OutcomeEndpointLost)
	default:
		c.fail(Endpoint, Reset, OutcomeEndpointReset)
	}
}

// patience is how long the connection may be silent in its present state; 0 = for ever.
func (c *conn) patience() time.Duration {
	if c.ended != "" {
		return c.front.engine.opts.HalfClose
	}
	return c.front.engine.opts.Idle
}

func (c *conn) checkSilence(now time.Duration) {
	patience := c.patience()
	switch {
	case patience == 0:
	case now < c.last+patience:
		c.l.timers.set(&c.timer, c.last+patience)
	case c.ended != "":
		c.fail(Proxy, Timeout, OutcomeHalfClosed)
	default:
		c.fail(Proxy, Timeout, OutcomeIdle)
	}
}

// turn carries bytes until the source is dry, the destination full, or the turn used up.
func (f *flow) turn(l *loop, src, dst *end) (verdict, syscall.Errno) {
	if f.done {
		return ended, 0
	}
	for most := f.carried + turnBytes; f.carried < most; {
		if f.holds() {
			if !dst.writable {
				return waits, 0
			}
			if e := f.flush(l, dst); e != 0 {
				return dstGone, e
			}
			if f.holds() {
				return waits, 0
			}
		}
		if f.eof {
			f.done = true
			return ended, 0
		}
		if !src.readable || !dst.writable {
			return waits, 0
		}
		if v, e := f.step(l, src, dst); v != more {
			return v, e
		}
	}
	return more, 0
}

func (f *flow) holds() bool { return f.inPipe > 0 || len(f.rest) > 0 }

// step moves one load, by a copy or by a pipe.
func (f *flow) step(l *loop, src, dst *end) (verdict, syscall.Errno) {
	if f.full >= bulkAfter {
		return f.splice(l, src, dst)
	}
	return f.copy(l, src, dst)
}

// copy moves what one read brings. Small loads are cheaper this way, and the loop's one buffer serves all.
func (f *flow) copy(l *loop, src, dst *end) (verdict, syscall.Errno) {
	n, e := sysRead(src.fd, l.scratch[:])
	if e != 0 {
		return src.stopped(e)
	}
	if n == 0 {
		f.eof = true
		return more, 0
	}
	f.carried += int64(n)
	if n == bufferSize {
		f.full++
	} else {
		f.full = 0
		src.readable = src.hup // a short read took all there was, unless the end is in too
	}
	sent, e := sysSend(dst.fd, l.scratch[:n])
	if e != 0 {
		if e != unix.EAGAIN {
			return dstGone, e
		}
		sent = 0
	}
	if sent < n {
		dst.full(l)
		f.buf = buffers.Get().(*[bufferSize]byte)
		f.rest = f.buf[:copy(f.buf[:], l.scratch[sent:n])]
	}
	return more, 0
}

// splice moves what one splice(2) brings, without a copy.
func (f *flow) splice(l *loop, src, dst *end) (verdict, syscall.Errno) {
	p, err := l.pipes.take()
	if err != nil {
		f.full = 0 // no descriptors for a pipe: copying needs none
		return more, 0
	}
	n, e := sysSplice(src.fd, p.w, pipeSize)
	if e != 0 || n == 0 {
		l.pipes.give(p)
		if e != 0 {
			return src.stopped(e)
		}
		f.eof = true
		return more, 0
	}
	f.carried += int64(n)
	if n < smallSplice {
		f.full = 0
	}
	f.pipe, f.inPipe = p, n
	if e := f.flush(l, dst); e != 0 {
		return dstGone, e
	}
	return more, 0
}

// stopped tells what an error of a read means.
func (s *end) stopped(e syscall.Errno) (verdict, syscall.Errno) {
	if e == unix.EAGAIN {
		s.readable = false
		return waits, 0
	}
	if e == unix.EINTR {
		return more, 0
	}
	return srcGone, e
}

// flush writes what the flow holds as far as the destination takes it, and gives back what it was held in.
func (f *flow) flush(l *loop, dst *end) syscall.Errno {
	for f.inPipe > 0 {
		n, e := sysSplice(f.pipe.r, dst.fd, f.inPipe)
		if e == unix.EAGAIN {
			dst.full(l)
			return 0
		}
		if e != 0 {
			return e
		}
		if f.inPipe -= n; f.inPipe == 0 {
			l.pipes.give(f.pipe)
		}
	}
	for len(f.rest) > 0 {
		n, e := sysSend(dst.fd, f.rest)
		if e == unix.EAGAIN {
			dst.full(l)
			return 0
		}
		if e != 0 {
			return e
		}
		if f.rest = f.rest[n:]; len(f.rest) == 0 {
			f.release()
		}
	}
	return 0
}

func (f *flow) release() {
	if f.buf != nil {
		buffers.Put(f.buf)
		f.buf, f.rest = nil, nil
	}
}

// drop gives back what the flow holds, bytes and all: a pipe with bytes in it is of no use to another connection.
func (f *flow) drop() {
	f.release()
	if f.inPipe > 0 {
		f.pipe.close()
		f.inPipe = 0
	}
}
