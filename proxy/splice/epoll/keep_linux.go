package epoll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/pipe"
)

// Keeper is told what an engine opens and closes that somebody else keeps for its successor. Loops call it: it must not
// block. Descriptors that it gets are its own.
type Keeper interface {
	PipeOpened(id uint32, r, w int)
	PipeClosed(id uint32)
	// KeepsPipe tells whether a pipe is kept, so that bytes in it are not lost, or whether it may be later.
	KeepsPipe(id uint32) (now, later bool)
	// Ended tells that a connection has ended, or is a successor's. Once nobody keeps it its slot is for Memory.GiveSlots.
	Ended(slot uint32)
}

func (e *engine) pipeOpened(p pipe.Pipe) {
	if e.memory == nil {
		return
	}
	r, w := p.Files()
	if pair, ok := duplicates(r, w); ok {
		e.keeper.PipeOpened(p.ID, pair[0], pair[1])
	}
}

func (e *engine) pipeUsable(p pipe.Pipe) pipe.Use {
	if e.memory == nil {
		return pipe.Now
	}
	switch now, later := e.keeper.KeepsPipe(p.ID); {
	case now:
		return pipe.Now
	case later:
		return pipe.Later
	}
	return pipe.Never
}

func (e *engine) pipeClosed(p pipe.Pipe) {
	if e.memory != nil {
		e.keeper.PipeClosed(p.ID)
	}
}

// duplicates are of both, or of none.
func duplicates(a, b int) (pair [2]int, ok bool) {
	for i, fd := range []int{a, b} {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			if i == 1 {
				sysClose(pair[0])
			}
			return pair, false
		}
		pair[i] = dup
	}
	return pair, true
}

// Keep implements splice.Owner.
func (c *conn) Keep(tell func(*splice.Kept)) {
	l := c.at.Load()
	queued := l.do(func() {
		if c.at.Load() != l || c.l != l { // as in Post
			c.Keep(tell)
			return
		}
		tell(c.keep())
	})
	if !queued {
		tell(nil)
	}
}

// keep begins to note what an established connection does, between two events. Nil: it cannot be now.
func (c *conn) keep() *splice.Kept {
	if c.stage != relaying {
		return nil
	}
	return c.noted()
}

// noted is keep of one that is relayed, or stands still.
func (c *conn) noted() *splice.Kept {
	m := c.l.engine.memory
	if m == nil || c.up.passed < 0 || c.client.urgent || c.endpoint.urgent {
		return nil
	}
	s := c.Saves()
	s.Up, s.Down = c.up.position(c.client.fd, c.endpoint.fd), c.down.position(c.endpoint.fd, c.client.fd)
	if s.Up.Unknown || s.Down.Unknown || !c.keepable() { // or a socket is closed, and the connection about to end
		return nil
	}
	pair, ok := duplicates(c.client.fd, c.endpoint.fd)
	if !ok {
		return nil
	}
	if c.up.mem == nil { // else another keeper begins
		if c.slot, ok = m.takeSlot(); !ok {
			sysClose(pair[0])
			sysClose(pair[1])
			return nil
		}
		c.up.note(c.l, &m.slots[c.slot].up)
		c.down.note(c.l, &m.slots[c.slot].down)
	}
	c.noteGiven(false) // it may be for the last keeper
	c.unguard()        // whoever goes on with it may not know of it
	return &splice.Kept{Slot: c.slot, State: s, Files: pair[:]}
}

// Unkept implements splice.Owner.
func (c *conn) Unkept() {
	l := c.at.Load()
	l.do(func() {
		switch {
		case c.at.Load() != l || c.l != l: // as in Post
			c.Unkept()
		case c.stage == relaying:
			c.guard()
		}
	})
}

// note begins to note what the flow does.
func (f *flow) note(l *loop, to *flowMemory) {
	f.mem = to
	if f.eof {
		to.ended.Store(1)
	}
	switch {
	case f.inPipe > 0:
		to.pipe.Store(f.pipe.ID)
	case len(f.rest) > 0 && f.buf != nil:
		f.holdsAt(l, f.passed)
	case len(f.rest) > 0:
		to.unprovable.Or(privateBuffer)
	}
}

// position is how far the flow has come, by its own count and by the kernel's.
func (f *flow) position(src, dst int) splice.SavedFlow {
	s := splice.SavedFlow{Carried: f.carried, Passed: f.passed}
	in, known := countsOf(src)
	out, also := countsOf(dst)
	s.Received, s.Sent, s.Unknown = in.received, out.sent, !known || !also || in.closed || out.closed
	return s
}

// noteGiven notes whether another process goes on with the connection, or is about to: what is noted here besides is
// not true then. Nothing else happens to the connection meanwhile.
func (c *conn) noteGiven(given bool) {
	switch m := c.up.mem; {
	case m == nil:
	case given:
		m.given.Store(1)
	default:
		m.given.Store(0)
	}
}

// unkeep ends that: the connection has ended, or is a successor's.
func (c *conn) unkeep() {
	if c.up.mem != nil {
		c.up.mem, c.down.mem = nil, nil
		c.l.engine.keeper.Ended(c.slot)
	}
}

// sysFinish closes a socket that others have too: its peer sees a FIN nevertheless.
func sysFinish(fd int) {
	syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_RDWR, 0) //nolint:errcheck // it may be closed already
	sysClose(fd)
}

// sysAbort closes a TCP socket that others have too, so that its peer sees a reset.
func sysAbort(fd int) {
	var unspecified unix.RawSockaddr // AF_UNSPEC disconnects
	syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)),
		unsafe.Sizeof(unspecified)) //nolint:errcheck // it may be closed already
	sysClose(fd)
}
