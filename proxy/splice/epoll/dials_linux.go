package epoll

import (
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// dials are the dials under way of a connection: one, whose socket is the relay's to the endpoint, and a second one
// beside it where the policy hedges.
type dials struct {
	until  time.Duration // when the first times out; 0: it is not under way
	second *secondDial   // nil: there is none
}

type secondDial struct {
	socket
	until time.Duration // when it times out
}

// The dials of a connection, by their places.
const (
	firstDial splice.Dial = iota
	otherDial
)

// any tells whether any dial is under way.
func (d *dials) any() bool { return d.until != 0 || d.second != nil }

// place returns the socket and the timeout of a dial. The first one's socket is the relay's to the endpoint.
func (d *dials) place(which splice.Dial, endpoint *socket) (*socket, *time.Duration) {
	if which == firstDial {
		return endpoint, &d.until
	}
	if d.second == nil {
		d.second = &secondDial{}
	}
	return &d.second.socket, &d.second.until
}

// connect begins a dial and returns our own address, of one that does not fail at once. 0: it is connected already,
// EINPROGRESS: the answer will come, else it failed.
func (d *dials) connect(
	by *dialer, p *poller, h handler, s splice.Step, endpoint *socket,
) (from netip.AddrPort, e syscall.Errno) {
	to, until := d.place(s.Dial, endpoint)
	fd, e := by.connect(s.Endpoint, s.As, p.now)
	*to = socket{fd: fd, tag: tagDial + uint8(s.Dial)}
	if e != 0 && e != unix.EINPROGRESS {
		return from, e
	}
	from = localAddr(fd)
	if we := to.watch(p, h, streamEvents); we != 0 {
		return from, we
	}
	if e == unix.EINPROGRESS {
		*until = s.Until
	}
	return from, e
}

// next is when the first dial under way times out.
func (d *dials) next() time.Duration {
	if d.second != nil && (d.until == 0 || d.second.until < d.until) {
		return d.second.until
	}
	return d.until
}

// late returns a dial that has timed out, of two the one that was due first. False: none has.
func (d *dials) late(now time.Duration) (splice.Dial, bool) {
	switch next := d.next(); {
	case next == 0 || now < next:
		return 0, false
	case next == d.until:
		return firstDial, true
	}
	return otherDial, true
}

// hangUp closes the socket of a dial that has failed, if there is one.
func (d *dials) hangUp(p *poller, which splice.Dial, endpoint *socket) {
	s, until := d.place(which, endpoint)
	s.close(p, false, sysClose)
	if *until = 0; which == otherDial {
		d.second = nil
	}
}

// won makes the socket of the dial that connected the endpoint's, and closes the socket of the other one.
func (d *dials) won(p *poller, which splice.Dial, endpoint *socket) {
	second := d.second
	if second == nil {
		return
	}
	d.second = nil
	if which == firstDial {
		second.close(p, false, sysClose)
	} else {
		endpoint.close(p, false, sysClose)
		endpoint.become(&second.socket)
	}
}

// drop closes the socket of a second dial.
func (d *dials) drop(p *poller) {
	if d.second != nil {
		d.hangUp(p, otherDial, nil)
	}
}
