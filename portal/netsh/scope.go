package netsh

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
)

// scope has the addresses and sockets that a change touches.
type scope struct {
	addrs   map[netip.Addr]struct{}
	sockets map[service.Frontend]struct{}
	again   bool // open sockets are opened once more, in case the Listeners have closed them
}

func newScope() scope {
	return scope{addrs: map[netip.Addr]struct{}{}, sockets: map[service.Frontend]struct{}{}}
}

// touch adds a portal's address and sockets.
func (w *Writer) touch(s scope, f service.Frontend) {
	if a := f.Addr.Addr(); !a.IsUnspecified() {
		s.addrs[a] = struct{}{}
	}
	for _, at := range w.socketsOf(f) {
		s.sockets[at] = struct{}{}
	}
}

// touchMoved adds what the addresses touch that have changed on the host since the last Sweep.
func (w *Writer) touchMoved(s scope) {
	for a := range w.moved {
		s.addrs[a] = struct{}{}
		for _, at := range w.socketsAt(a) {
			s.sockets[at] = struct{}{}
		}
	}
	w.moved = map[netip.Addr]struct{}{}
}

// everything is a scope of all.
func (w *Writer) everything() scope {
	s := newScope()
	s.again = true
	for a := range w.addrs {
		s.addrs[a] = struct{}{}
	}
	for at := range w.sockets {
		s.sockets[at] = struct{}{}
	}
	for f := range w.portals {
		w.touch(s, f)
	}
	return s
}
