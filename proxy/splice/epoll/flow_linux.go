package epoll

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// turnBytes is what one direction may carry before the loop's other connections have a turn.
const turnBytes = pipeSize

// flow is one direction. What it holds (a buffer or a pipe with bytes in it) is borrowed only while the destination does
// not take them: an idle connection holds nothing but its two sockets.
type flow struct {
	carried int64 // read of the source
	passed  int64 // of that, what the destination's socket took
	large   uint8 // loads in a row that are worth a splice; from bulkAfter on it splices
	small   uint8 // splices in a row that were not worth it
	eof     bool  // the source's FIN was read
	done    bool  // and all before it was passed on

	buf    *[bufferSize]byte // holds rest, unless nil
	rest   []byte
	flags  uintptr // to send rest with
	pipe   pipe
	inPipe int // bytes; the pipe is borrowed while positive
}

// bulkAfter is how many large loads in a row make bulk.
const bulkAfter = 2

// bulkEnds is how many small splices in a row end it: among many streams each has a little now and then.
const bulkEnds = 8

// verdict is how a turn of a flow ended.
type verdict uint8

const (
	waits   verdict = iota // for the source or the destination
	more                   // there may be more to do
	spliced                // a load of bulk is through, and there may be more
	ended                  // the source's FIN is due at the destination
	srcGone                // an error of the source; errno tells
	dstGone                // an error of the destination
)

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
		switch v, e := f.step(l, src, dst); {
		case v == spliced:
			return more, 0 // others have their turn
		case v != more:
			return v, e
		}
	}
	return more, 0
}

func (f *flow) holds() bool { return f.inPipe > 0 || len(f.rest) > 0 }

func (f *flow) isBulk() bool { return f.large >= bulkAfter }

// step moves one load, by a copy or by a pipe.
func (f *flow) step(l *loop, src, dst *end) (verdict, syscall.Errno) {
	if f.isBulk() && !src.urgent {
		return f.splice(l, src, dst)
	}
	if l.engine.account.BuffersExhausted() && !src.urgent {
		return f.pass(l, src, dst)
	}
	return f.copy(l, src, dst)
}

// copy moves what one read brings. Small loads are cheaper this way, and the loop's one buffer serves all.
//
// A read ends before an urgent byte, at the mark, and splice(2) never gets past one. So an end that has sent one is
// copied from then on, each urgent byte by itself, and urgent at the other side too.
func (f *flow) copy(l *loop, src, dst *end) (verdict, syscall.Errno) {
	room, flags := l.scratch[:], uintptr(0)
	if src.urgent && sysAtMark(src.fd) {
		room, flags = room[:1], unix.MSG_OOB
	}
	n, e := sysRecv(src.fd, room)
	if e != 0 {
		return src.stopped(e)
	}
	if n == 0 {
		f.eof = true
		return more, 0
	}
	f.carried += int64(n)
	f.weigh(n)
	if n < bufferSize && !src.urgent {
		src.readable = src.hup // a short read took all there was, unless the end is in too
	}
	sent, e := sysSendAs(dst.fd, l.scratch[:n], flags)
	if e != 0 {
		if e != unix.EAGAIN {
			return dstGone, e
		}
		sent = 0
	}
	f.passed += int64(sent)
	if sent < n {
		dst.full(l)
		f.borrow(l)
		f.rest, f.flags = f.buf[:copy(f.buf[:], l.scratch[sent:n])], flags
	}
	return more, 0
}

// pass moves what the destination takes of one read, and leaves the rest where it is: nothing needs to be held for it. A
// call more than a copy, for when buffers are short.
func (f *flow) pass(l *loop, src, dst *end) (verdict, syscall.Errno) {
	n, e := sysPeek(src.fd, l.scratch[:])
	if e != 0 {
		return src.stopped(e)
	}
	if n == 0 {
		f.eof = true
		return more, 0
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
	} else if n < bufferSize {
		src.readable = src.hup
	}
	if sent > 0 {
		if _, e := sysRecv(src.fd, l.scratch[:sent]); e != 0 {
			return srcGone, e
		}
	}
	f.carried += int64(sent)
	f.passed += int64(sent)
	f.weigh(n)
	return more, 0
}

// weigh notes whether loads are worth a splice.
func (f *flow) weigh(n int) {
	if n >= worthSplicing {
		f.large++
	} else {
		f.large = 0
	}
}

// splice moves what one splice(2) brings, without a copy.
func (f *flow) splice(l *loop, src, dst *end) (verdict, syscall.Errno) {
	p, ok := l.pipes.take()
	if !ok {
		f.large = 0 // copying needs none
		return more, 0
	}
	n, e := sysSplice(src.fd, p.w, pipeSize)
	if e != 0 || n == 0 {
		l.pipes.give(p)
		if e != 0 {
			return src.stopped(e)
		}
		f.large = 0 // the end or an urgent byte before it: a read tells
		return more, 0
	}
	f.carried += int64(n)
	l.bulk = l.bulk || n < p.size() // after a full load there is more already
	if n >= worthSplicing {
		f.small = 0
	} else if f.small++; f.small == bulkEnds {
		f.large, f.small = 0, 0
	}
	f.pipe, f.inPipe = p, n
	if e := f.flush(l, dst); e != 0 {
		return dstGone, e
	}
	return spliced, 0
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
		f.passed += int64(n)
		if f.inPipe -= n; f.inPipe == 0 {
			l.pipes.give(f.pipe)
		}
	}
	for len(f.rest) > 0 {
		n, e := sysSendAs(dst.fd, f.rest, f.flags)
		if e == unix.EAGAIN {
			dst.full(l)
			return 0
		}
		if e != 0 {
			return e
		}
		f.passed += int64(n)
		if f.rest = f.rest[n:]; len(f.rest) == 0 {
			f.release(l)
		}
	}
	return 0
}

// publish stores what the flow has read and written so far, as far as that is new: a load costs less than a store.
func (f *flow) publish(carried, passed *atomic.Int64) {
	if carried.Load() != f.carried {
		carried.Store(f.carried)
	}
	if p := max(0, f.passed); passed.Load() != p {
		passed.Store(p)
	}
}

func (f *flow) borrow(l *loop) {
	l.engine.account.TakeBuffer()
	f.buf = buffers.Get().(*[bufferSize]byte)
}

func (f *flow) release(l *loop) {
	if f.buf != nil {
		buffers.Put(f.buf)
		l.engine.account.GiveBuffer()
		f.buf = nil
	}
	f.rest, f.flags = nil, 0
}

// drop gives back what the flow holds, bytes and all.
func (f *flow) drop(l *loop) {
	f.release(l)
	if f.inPipe > 0 {
		l.pipes.drop(f.pipe)
		f.inPipe = 0
	}
}
