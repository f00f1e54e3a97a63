package epoll

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/pipe"
)

// unsent has what a flow has read and its destination did not take yet. It borrows a buffer or a pipe only while that
// has bytes.
type unsent struct {
	mem    *flowMemory       // where it is noted what the flow does; nil: nobody keeps the connection
	buf    *[bufferSize]byte // has rest, unless nil
	rest   []byte
	pipe   pipe.Pipe
	inPipe int32 // bytes; the pipe is borrowed while positive
	urgent bool  // rest is sent as urgent data
}

func (u *unsent) empty() bool { return u.inPipe == 0 && len(u.rest) == 0 }

// put keeps bytes in a buffer, which are at that place in the stream.
func (u *unsent) put(s *stock, at int64, bytes []byte, urgent bool) {
	u.buf = s.buffer()
	u.rest, u.urgent = u.buf[:copy(u.buf[:], bytes)], urgent
	u.note(s, at)
}

// note notes where in the stream the first byte of rest is.
func (u *unsent) note(s *stock, at int64) {
	if u.mem == nil {
		return
	}
	skipped := bufferSize - cap(u.rest)
	if i, ok := s.memory.index(u.buf); ok {
		u.mem.reads(at-int64(skipped), i)
	} else {
		u.mem.unprovable.Or(privateBuffer)
	}
}

// flush writes what there is as far as the destination takes it, counts that, and gives back the pipe or buffer that
// had it.
func (u *unsent) flush(s *stock, dst *socket, passed *int64) syscall.Errno {
	for u.inPipe > 0 {
		n, e := u.pipe.Drain(dst.fd, int(u.inPipe))
		if e == unix.EAGAIN {
			dst.full(s.poll)
			return 0
		}
		if e != 0 {
			return e
		}
		*passed += int64(n)
		if u.inPipe -= int32(n); u.inPipe == 0 {
			u.emptied(s, u.pipe)
		}
	}
	for len(u.rest) > 0 {
		n, e := sysSendAs(dst.fd, u.rest, u.flags())
		if e == unix.EAGAIN {
			dst.full(s.poll)
			return 0
		}
		if e != 0 {
			return e
		}
		*passed += int64(n)
		if u.rest = u.rest[n:]; len(u.rest) == 0 {
			u.release(s)
		}
	}
	return 0
}

func (u *unsent) flags() uintptr {
	if u.urgent {
		return unix.MSG_OOB
	}
	return 0
}

// emptied gives back an empty pipe.
func (u *unsent) emptied(s *stock, p pipe.Pipe) {
	if u.mem != nil {
		u.mem.pipe.Store(0)
	}
	s.pipes.give(p)
}

// release gives back the buffer.
func (u *unsent) release(s *stock) {
	if u.buf != nil {
		s.giveBuffer(u.buf)
		if u.mem != nil {
			u.mem.unprovable.And(^uint32(privateBuffer))
		}
		u.buf = nil
	}
	u.rest, u.urgent = nil, false
}

// drop discards what there is.
func (u *unsent) drop(s *stock) {
	u.release(s)
	if u.inPipe > 0 {
		s.pipes.Discard(u.pipe)
		u.inPipe = 0
	}
}

// keep begins to note what there is, the first byte of which is at that place in the stream.
func (u *unsent) keep(s *stock, to *flowMemory, at int64) {
	u.mem = to
	switch {
	case u.inPipe > 0:
		to.pipe.Store(u.pipe.ID)
	case len(u.rest) > 0 && u.buf != nil:
		u.note(s, at)
	case len(u.rest) > 0:
		to.unprovable.Or(privateBuffer)
	}
}

// files are the descriptors of the pipe while that has bytes.
func (u *unsent) files() []int {
	if u.inPipe == 0 {
		return nil
	}
	r, w := u.pipe.Files()
	return []int{r, w}
}

// restore goes on with what a predecessor's had. It returns the files that belong to others.
func (u *unsent) restore(s *stock, from *splice.SavedFlow, files []int) []int {
	if len(from.Rest) > 0 {
		u.buf = s.buffer()
		u.rest = u.buf[:copy(u.buf[:], from.Rest)]
	}
	u.urgent = from.Urgent
	if from.InPipe > 0 {
		u.pipe, u.inPipe = pipe.Adopt(s.account, files[0], files[1]), int32(from.InPipe)
		s.pipes.Opened(u.pipe)
		files = files[2:]
	}
	return files
}
