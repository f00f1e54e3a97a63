package epoll

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/pipe"
)

// quantum is how many bytes one direction may carry before other connections of the loop are served.
const quantum = pipeSize

// flow is one direction of a connection. It borrows a buffer or a pipe only while that holds bytes which the
// destination does not take: an idle connection holds nothing but its two sockets.
type flow struct {
	carried int64 // read from the source
	passed  int64 // of that, what the destination's socket took
	large   uint8 // loads in a row that are worth a splice; from bulkAfter on it splices
	small   uint8 // splices in a row that were not worth it
	fin     bool  // the source's FIN was read
	eof     bool  // and all before it was passed on

	replay *splice.Conn      // keeps what is read, as it may have to be sent again; nil: nobody
	mem    *flowMemory       // where it is noted what the flow does; nil: nobody keeps the connection
	buf    *[bufferSize]byte // holds rest, unless nil
	rest   []byte
	flags  uintptr // to send rest with
	pipe   pipe.Pipe
	inPipe int // bytes; the pipe is borrowed while positive
}

// bulkAfter is how many large loads in a row make a flow bulk.
const bulkAfter = 2

// bulkEnds is how many small splices in a row end that: among many streams each has a little now and then.
const bulkEnds = 8

// progress is why a flow has stopped carrying.
type progress uint8

const (
	blocked           progress = iota // the source has nothing to read, or the destination's send buffer is full
	more                              // there may be more to do
	spliced                           // a load of bulk was passed on, and there may be more
	atEOF                             // the source's FIN is to be passed on
	sourceFailed                      // an error of the source; errno tells which
	destinationFailed                 // an error of the destination
)

// carry moves bytes until the flow is blocked or has used its quantum.
func (f *flow) carry(l *loop, src, dst *socket) (progress, syscall.Errno) {
	if f.eof {
		return atEOF, 0
	}
	for most := f.carried + quantum; f.carried < most; {
		if f.holds() {
			if !dst.writable {
				return blocked, 0
			}
			if e := f.flush(l, dst); e != 0 {
				return destinationFailed, e
			}
			if f.holds() {
				return blocked, 0
			}
		}
		if f.fin {
			f.eof = true
			return atEOF, 0
		}
		if !src.readable || !dst.writable {
			return blocked, 0
		}
		switch p, e := f.step(l, src, dst); {
		case p == spliced:
			return more, 0 // other connections come before the next load
		case p != more:
			return p, e
		}
	}
	return more, 0
}

func (f *flow) holds() bool { return f.inPipe > 0 || len(f.rest) > 0 }

func (f *flow) isBulk() bool { return f.large >= bulkAfter }

// step moves one load, by a copy or by a pipe.
func (f *flow) step(l *loop, src, dst *socket) (progress, syscall.Errno) {
	if f.replay != nil && f.copies(l) {
		return f.copy(l, src, dst)
	}
	if f.isBulk() && !src.urgent {
		return f.splice(l, src, dst)
	}
	if l.engine.account.Buffers.Exhausted() && !src.urgent {
		return f.pass(l, src, dst)
	}
	return f.copy(l, src, dst)
}

// copy moves what one read brings. Small loads are cheaper this way, and the loop's one buffer serves all.
//
// A read ends before an urgent byte, at the mark, and splice(2) never gets past one. So what a peer sends is copied
// once it has sent an urgent byte, each such byte by itself, and sent as urgent data again.
func (f *flow) copy(l *loop, src, dst *socket) (progress, syscall.Errno) {
	room, flags := l.scratch[:], uintptr(0)
	if src.urgent && sysAtMark(src.fd) {
		room, flags = room[:1], unix.MSG_OOB
	}
	if f.mem != nil {
		f.mem.reads(f.carried, l.scratchIndex)
		if src.urgent {
			f.mem.unprovable.Or(urgentData)
		}
	}
	n, e := sysRecv(src.fd, room)
	if e != 0 {
		return src.readFailed(e)
	}
	if n == 0 {
		f.fin = true
		return more, 0
	}
	if f.replay != nil {
		f.keepForReplay(l.scratch[:n], flags != 0)
	}
	f.carried += int64(n)
	f.sized(n)
	if n < bufferSize && !src.urgent {
		src.readable = src.hup // a short read took all there was, unless a FIN is behind it
	}
	sent, e := sysSendAs(dst.fd, l.scratch[:n], flags)
	if e != 0 {
		if e != unix.EAGAIN {
			return destinationFailed, e
		}
		sent = 0
	}
	f.passed += int64(sent)
	if sent < n {
		dst.full(l)
		f.borrow(l)
		f.rest, f.flags = f.buf[:copy(f.buf[:], l.scratch[sent:n])], flags
		f.holdsAt(l, f.passed)
	}
	return more, 0
}

// pass moves what the destination takes of one read and leaves the rest in the source's receive buffer, so that no
// buffer is needed for it. It costs a system call more than a copy, and is for when buffers are exhausted.
func (f *flow) pass(l *loop, src, dst *socket) (progress, syscall.Errno) {
	n, e := sysPeek(src.fd, l.scratch[:])
	if e != 0 {
		return src.readFailed(e)
	}
	if n == 0 {
		f.fin = true
		return more, 0
	}
	if f.mem != nil {
		f.mem.reads(f.carried, l.scratchIndex)
		f.mem.peeking.Store(1)
		defer f.mem.peeking.Store(0)
	}
	sent, e := sysSend(dst.fd, l.scratch[:n])
	if e != 0 {
		if e != unix.EAGAIN {
			return destinationFailed, e
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
			return sourceFailed, e
		}
	}
	f.carried += int64(sent)
	f.passed += int64(sent)
	f.sized(n)
	return more, 0
}

// sized notes whether loads are large enough to be worth a splice.
func (f *flow) sized(n int) {
	if n >= worthSplicing {
		f.large++
	} else {
		f.large = 0
	}
}

// splice moves what one splice(2) brings, without a copy.
func (f *flow) splice(l *loop, src, dst *socket) (progress, syscall.Errno) {
	p, ok := l.pipes.take()
	if !ok {
		f.large = 0 // copy: that needs no pipe
		return more, 0
	}
	if f.mem != nil {
		f.mem.reads(f.carried, l.scratchIndex)
		f.mem.pipe.Store(p.ID)
	}
	n, e := p.Fill(src.fd)
	if e != 0 || n == 0 {
		f.emptied(l, p)
		if e != 0 {
			return src.readFailed(e)
		}
		f.large = 0 // a FIN, or an urgent byte before it: a read tells which
		return more, 0
	}
	f.carried += int64(n)
	l.bulk = l.bulk || n < p.Size() // a load that fills the pipe leaves more to read already
	if n >= worthSplicing {
		f.small = 0
	} else if f.small++; f.small == bulkEnds {
		f.large, f.small = 0, 0
	}
	f.pipe, f.inPipe = p, n
	if e := f.flush(l, dst); e != 0 {
		return destinationFailed, e
	}
	return spliced, 0
}

// flush writes what the flow holds, as far as the destination takes it, and gives back the pipe or buffer that held it.
func (f *flow) flush(l *loop, dst *socket) syscall.Errno {
	for f.inPipe > 0 {
		n, e := f.pipe.Drain(dst.fd, f.inPipe)
		if e == unix.EAGAIN {
			dst.full(l)
			return 0
		}
		if e != 0 {
			return e
		}
		f.passed += int64(n)
		if f.inPipe -= n; f.inPipe == 0 {
			f.emptied(l, f.pipe)
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

// failure is the error of the source. Whoever goes on with the connection cannot ask for it again.
func (f *flow) failure(src *socket) syscall.Errno {
	if f.mem != nil {
		f.mem.asked.Store(1)
	}
	return sysError(src.fd)
}

// publish stores what the flow has carried so far, for other goroutines to read. An atomic load costs less than a
// store, so that only what has changed is stored.
func (f *flow) publish(carried, passed *atomic.Int64) {
	if carried.Load() != f.carried {
		carried.Store(f.carried)
	}
	if p := max(0, f.passed); passed.Load() != p {
		passed.Store(p)
	}
}

// emptied gives back an empty pipe.
func (f *flow) emptied(l *loop, p pipe.Pipe) {
	if f.mem != nil {
		f.mem.pipe.Store(0)
	}
	l.pipes.give(p)
}

// holdsAt notes where in the stream the first byte of rest is.
func (f *flow) holdsAt(l *loop, at int64) {
	if f.mem == nil {
		return
	}
	skipped := bufferSize - cap(f.rest)
	if i, ok := l.engine.memory.index(f.buf); ok {
		f.mem.reads(at-int64(skipped), i)
	} else {
		f.mem.unprovable.Or(privateBuffer)
	}
}

func (f *flow) borrow(l *loop) {
	l.engine.account.Buffers.Take()
	if m := l.engine.memory; m != nil {
		f.buf = m.takeBuffer()
	}
	if f.buf == nil {
		f.buf = buffers.Get().(*[bufferSize]byte)
	}
}

func (f *flow) release(l *loop) {
	if f.buf != nil {
		if m := l.engine.memory; m == nil || !m.giveBuffer(f.buf) {
			buffers.Put(f.buf)
		}
		if f.mem != nil {
			f.mem.unprovable.And(^uint32(privateBuffer))
		}
		l.engine.account.Buffers.Give()
		f.buf = nil
	}
	f.rest, f.flags = nil, 0
}

// drop discards what the flow holds.
func (f *flow) drop(l *loop) {
	f.release(l)
	if f.inPipe > 0 {
		l.pipes.Discard(f.pipe)
		f.inPipe = 0
	}
}
