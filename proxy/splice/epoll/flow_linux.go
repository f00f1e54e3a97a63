package epoll

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/splice"
)

// quantum bounds the bytes that one direction may carry before other connections of the loop are served.
const quantum = pipeSize

// flow is one direction of a connection, from its source to its destination. It has no memory of its own: an idle
// connection has nothing but its two sockets.
type flow struct {
	carried int64 // read from the source
	passed  int64 // of that, what the destination's socket took
	loads   loads
	fin     bool // the source's FIN was read
	eof     bool // and all before it was passed on

	payload *payload.Stream // is shown the bytes that are read, which are copied for that; nil: nobody wants them
	replay  *splice.Replay  // keeps the bytes that are read, as they may have to be sent again; nil: nobody
	unsent
}

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
func (f *flow) carry(s *stock, src, dst *socket) (progress, syscall.Errno) {
	if f.eof {
		return atEOF, 0
	}
	for most := f.carried + quantum; f.carried < most; {
		if !f.empty() {
			if !dst.writable {
				return blocked, 0
			}
			if e := f.flush(s, dst, &f.passed); e != 0 {
				return destinationFailed, e
			}
			if !f.empty() {
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
		switch p, e := f.step(s, src, dst); {
		case p == spliced:
			return more, 0 // other connections come before the next load
		case p != more:
			return p, e
		}
	}
	return more, 0
}

// step moves one load, by a copy or by a pipe.
func (f *flow) step(s *stock, src, dst *socket) (progress, syscall.Errno) {
	if f.replay != nil && f.keepsReplay(s) {
		return f.copy(s, src, dst)
	}
	if f.loads.bulk() && !src.urgent && f.payload == nil {
		return f.splice(s, src, dst)
	}
	if s.account.Buffers.Exhausted() && !src.urgent {
		return f.pass(s, src, dst)
	}
	return f.copy(s, src, dst)
}

// copy moves what one read brings. Small loads are cheaper this way, and the loop's one buffer serves all.
//
// A read ends before an urgent byte, at the mark, and splice(2) never gets past one. So what a peer sends is copied
// once it has sent an urgent byte, each such byte by itself, and sent as urgent data again.
func (f *flow) copy(s *stock, src, dst *socket) (progress, syscall.Errno) {
	room, flags := s.scratch[:], uintptr(0)
	if src.urgent && sysAtMark(src.fd) {
		room, flags = room[:1], unix.MSG_OOB
	}
	if f.mem != nil {
		f.mem.reads(f.carried, s.scratchIndex)
		if src.urgent {
			f.mem.unprovable.Or(urgentData)
		}
	}
	n, e := sysRecv(src.fd, room)
	if e != 0 {
		return readFailed(src, e)
	}
	if n == 0 {
		f.fin = true
		return more, 0
	}
	if f.replay != nil {
		f.keepForReplay(s.scratch[:n], flags != 0)
	}
	if f.payload != nil {
		f.payload.Observe(f.carried, s.scratch[:n])
	}
	f.carried += int64(n)
	f.loads.read(n)
	if n < bufferSize && !src.urgent {
		src.readable = src.hup // a short read took all there was, unless a FIN is behind it
	}
	sent, e := sysSendAs(dst.fd, s.scratch[:n], flags)
	if e != 0 {
		if e != unix.EAGAIN {
			return destinationFailed, e
		}
		sent = 0
	}
	f.passed += int64(sent)
	if sent < n {
		dst.full(s.poll)
		f.put(s, f.passed, s.scratch[sent:n], flags != 0)
	}
	return more, 0
}

// pass moves what the destination takes of one read and leaves the rest in the source's receive buffer, so that no
// buffer is needed for it. It costs a system call more than a copy, and is for when buffers are exhausted.
func (f *flow) pass(s *stock, src, dst *socket) (progress, syscall.Errno) {
	n, e := sysPeek(src.fd, s.scratch[:])
	if e != 0 {
		return readFailed(src, e)
	}
	if n == 0 {
		f.fin = true
		return more, 0
	}
	if f.mem != nil {
		f.mem.reads(f.carried, s.scratchIndex)
		f.mem.peeking.Store(1)
		defer f.mem.peeking.Store(0)
	}
	sent, e := sysSend(dst.fd, s.scratch[:n])
	if e != 0 {
		if e != unix.EAGAIN {
			return destinationFailed, e
		}
		sent = 0
	}
	if sent < n {
		dst.full(s.poll)
	} else if n < bufferSize {
		src.readable = src.hup
	}
	if sent > 0 {
		if _, e := sysRecv(src.fd, s.scratch[:sent]); e != 0 {
			return sourceFailed, e
		}
	}
	if f.payload != nil {
		f.payload.Observe(f.carried, s.scratch[:sent])
	}
	f.carried += int64(sent)
	f.passed += int64(sent)
	f.loads.read(n)
	return more, 0
}

// splice moves what one splice(2) brings, without a copy.
func (f *flow) splice(s *stock, src, dst *socket) (progress, syscall.Errno) {
	p, ok := s.pipes.take()
	if !ok {
		f.loads.large = 0 // copy: that needs no pipe
		return more, 0
	}
	if f.mem != nil {
		f.mem.reads(f.carried, s.scratchIndex)
		f.mem.pipe.Store(p.ID)
	}
	n, e := p.Fill(src.fd)
	if e != 0 || n == 0 {
		f.emptied(s, p)
		if e != 0 {
			return readFailed(src, e)
		}
		f.loads.large = 0 // a FIN, or an urgent byte before it: a read tells which
		return more, 0
	}
	f.carried += int64(n)
	s.bulk = s.bulk || n < p.Size() // a load that fills the pipe leaves more to read already
	f.loads.spliced(n)
	f.pipe, f.inPipe = p, int32(n)
	if e := f.flush(s, dst, &f.passed); e != 0 {
		return destinationFailed, e
	}
	return spliced, 0
}

// readFailed returns what an error of a read means for the flow.
func readFailed(src *socket, e syscall.Errno) (progress, syscall.Errno) {
	if e == unix.EAGAIN {
		src.readable = false
		return blocked, 0
	}
	return sourceFailed, e
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

// keepForReplay tells whoever may send it again of a load. Urgent bytes are sent once.
func (f *flow) keepForReplay(load []byte, urgent bool) {
	switch {
	case urgent:
		f.replay.Forget()
		f.replay = nil
	case !f.replay.Sent(load):
		f.replay = nil
	}
}

// keepsReplay tells whether a load may be sent again, so that it is to be copied though a pipe, or the receive buffer,
// would do.
func (f *flow) keepsReplay(s *stock) bool {
	switch {
	case s.account.Buffers.Exhausted():
		f.replay.Forget()
		fallthrough
	case !f.replay.Possible():
		f.replay = nil
		return false
	}
	return true
}

// restart forgets what was read for an endpoint that is left, and the end of the stream: the next one gets it again.
func (f *flow) restart(s *stock) {
	f.drop(s)
	f.eof, f.loads = false, loads{}
}

// save returns the flow's counts and the bytes that it buffers, which stay where they are.
func (f *flow) save() splice.SavedFlow {
	return splice.SavedFlow{
		Carried: f.carried, Passed: f.passed, FIN: f.fin, EOF: f.eof, Large: f.loads.large, Small: f.loads.small,
		Rest: f.rest, Urgent: f.urgent, InPipe: int(f.inPipe),
	}
}

// restore goes on with the counts and the buffered bytes of a predecessor's flow. It returns the files that belong to
// others.
func (f *flow) restore(s *stock, from splice.SavedFlow, files []int) []int {
	f.carried, f.passed, f.fin, f.eof = from.Carried, from.Passed, from.FIN, from.EOF
	f.loads = loads{large: from.Large, small: from.Small}
	return f.unsent.restore(s, &from, files)
}

// failure is the error of the source. Whoever goes on with the connection cannot ask for it again.
func (f *flow) failure(src *socket) syscall.Errno {
	if f.mem != nil {
		f.mem.errorTaken.Store(1)
	}
	return sysError(src.fd)
}

// position is how far the flow has come, by its own count and by the kernel's. It is not known of a socket that is
// closed: the connection is about to end.
func (f *flow) position(src, dst int) splice.SavedFlow {
	s := splice.SavedFlow{Carried: f.carried, Passed: f.passed}
	in, known := countsOf(src)
	out, also := countsOf(dst)
	s.Received, s.Sent, s.Unknown = in.received, out.sent, !known || !also || in.closed || out.closed
	return s
}
