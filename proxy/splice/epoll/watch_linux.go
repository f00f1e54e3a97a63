package epoll

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// streamEvents is edge-triggered readiness of a stream, asked for once: a connection keeps what was reported.
const streamEvents = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// handler owns a descriptor that a loop watches. ready runs on the loop's goroutine; tag is what watch was given.
type handler interface {
	ready(events uint32, tag uint8)
}

// slot is a watch; its index is the id of the watch.
type slot struct {
	gen uint16 // of the watches that this slot had
	tag uint8
	h   handler
}

// readiness is an event and its handler.
type readiness struct {
	h      handler
	events uint32
	tag    uint8
}

// watch has h called for the events of fd. It may be called from any goroutine: the loop owns h from then on. The id is
// for forget.
func (l *loop) watch(fd int, events uint32, h handler, tag uint8) (uint32, syscall.Errno) {
	l.mu.Lock()
	var id uint32
	if n := len(l.free); n > 0 {
		id = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		id = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[id]
	s.h, s.tag = h, tag
	ev := unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(s.gen)}
	l.mu.Unlock()
	e := sysEpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &ev)
	if e != 0 {
		l.forget(id)
	}
	return id, e
}

// forget ends a watch. The caller closes the descriptor or takes it out of the epoll set; events of it that were
// received but not handled yet are dropped.
func (l *loop) forget(id uint32) {
	l.mu.Lock()
	s := &l.slots[id]
	s.h = nil
	s.gen++
	l.free = append(l.free, id)
	l.mu.Unlock()
}

// rewatch changes the events of a watch; those that hold already are reported again.
func (l *loop) rewatch(fd int, id, events uint32) {
	l.mu.Lock()
	s := &l.slots[id]
	ev := unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(s.gen)}
	l.mu.Unlock()
	sysEpollCtl(l.ep, unix.EPOLL_CTL_MOD, fd, &ev)
}

// unwatch ends a watch of a descriptor that stays open.
func (l *loop) unwatch(fd int, id uint32) {
	sysEpollCtl(l.ep, unix.EPOLL_CTL_DEL, fd, &unix.EpollEvent{})
	l.forget(id)
}

// resolve finds the handlers of events. A slot that was reused meanwhile has another generation.
func (l *loop) resolve(n int) []readiness {
	out := l.batch[:0]
	l.mu.Lock()
	for _, ev := range l.events[:n] {
		if s := &l.slots[ev.Fd]; s.h != nil && s.gen == uint16(ev.Pad) {
			out = append(out, readiness{s.h, ev.Events, s.tag})
		}
	}
	l.mu.Unlock()
	return out
}
