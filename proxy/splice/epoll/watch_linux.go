package epoll

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// handler owns a descriptor that a poller watches. ready runs on the poller's goroutine; tag comes from watch.
type handler interface {
	ready(events uint32, tag uint8)
}

// watches are the handlers of the descriptors in an epoll set, by the ids of their watches.
type watches struct {
	mu    sync.Mutex
	slots []slot   // guarded by mu
	free  []uint32 // guarded by mu
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

// add returns the id of another watch, and the event to register it with.
func (w *watches) add(events uint32, h handler, tag uint8) (id uint32, ev unix.EpollEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		id = w.free[n-1]
		w.free = w.free[:n-1]
	} else {
		id = uint32(len(w.slots))
		w.slots = append(w.slots, slot{})
	}
	s := &w.slots[id]
	s.h, s.tag = h, tag
	return id, unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(s.gen)}
}

// change returns the event to register a watch again with.
func (w *watches) change(id, events uint32) unix.EpollEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(w.slots[id].gen)}
}

func (w *watches) remove(id uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.slots[id]
	s.h = nil
	s.gen++
	w.free = append(w.free, id)
}

// resolve appends events with their handlers. A slot that was reused meanwhile has another generation.
func (w *watches) resolve(events []unix.EpollEvent, to []readiness) []readiness {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range events {
		if s := &w.slots[ev.Fd]; s.h != nil && s.gen == uint16(ev.Pad) {
			to = append(to, readiness{s.h, ev.Events, s.tag})
		}
	}
	return to
}

// watch has h called for the events of fd. It may be called from any goroutine: the poller owns h from then on. The id
// is for forget.
func (p *poller) watch(fd int, events uint32, h handler, tag uint8) (uint32, syscall.Errno) {
	id, ev := p.watches.add(events, h, tag)
	e := sysEpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &ev)
	if e != 0 {
		p.forget(id)
	}
	return id, e
}

// forget ends a watch. The caller closes the descriptor or takes it out of the epoll set; events of it that were
// received but not handled yet are dropped.
func (p *poller) forget(id uint32) { p.watches.remove(id) }

// rewatch changes the events of a watch; events that are true already are reported again.
func (p *poller) rewatch(fd int, id, events uint32) {
	ev := p.watches.change(id, events)
	sysEpollCtl(p.ep, unix.EPOLL_CTL_MOD, fd, &ev)
}

// unwatch ends a watch of a descriptor that stays open.
func (p *poller) unwatch(fd int, id uint32) {
	sysEpollCtl(p.ep, unix.EPOLL_CTL_DEL, fd, &unix.EpollEvent{})
	p.forget(id)
}

// ignore drops the events of h from that tag on which were received and are not handled yet.
func (p *poller) ignore(h handler, from uint8) {
	for i := range p.batch {
		if e := &p.batch[i]; e.tag >= from && e.h == h {
			e.h = nobody{}
		}
	}
}

// nobody handles events of closed descriptors.
type nobody struct{}

func (nobody) ready(uint32, uint8) {}
