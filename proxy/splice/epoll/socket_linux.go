package epoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// streamEvents is edge-triggered readiness of a stream, asked for once: a connection keeps what was reported.
const streamEvents = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// socket is one of the two sockets of a connection, with what epoll has reported of it.
type socket struct {
	fd       int
	id       uint32 // of the watch
	watched  bool
	forOut   bool // EPOLLOUT is watched for too
	readable bool
	writable bool
	hup      bool // a FIN or reset has arrived: reads go on until they return it
	failed   bool // it has a pending error
	urgent   bool // it has sent an urgent byte
	guarded  bool // see guard
	probing  bool // the kernel probes an idle peer; one that was accepted inherits that from its listener
	tag      uint8
	blocked  splice.BlockedTime
}

// The tags of a connection's watches. Of two dials at once each has one, which the socket to the endpoint keeps.
const (
	tagClient uint8 = iota
	tagDial
	_ // of the other dial
)

// guard has the death of this process reset the connection to the peer, which else would see a FIN: the end of a stream
// that has not ended. It is for as long as nobody else has the socket, and its stream goes on.
func (s *socket) guard() {
	if !s.guarded {
		s.guarded = true
		sysCloseByReset(s.fd, 1)
	}
}

// unguard ends that. A socket that is closed by a FIN must not be guarded.
func (s *socket) unguard() {
	if s.guarded {
		s.guarded = false
		sysCloseByReset(s.fd, 0)
	}
}

// keepAlive has the kernel probe an idle peer.
func (s *socket) keepAlive(k splice.Keepalive) {
	s.probing = true
	setKeepalive(s.fd, k)
}

// end closes the socket for writing: its peer sees a FIN, and the kernel sends the bytes before that, whoever dies.
func (s *socket) end() {
	s.unguard()
	sysShutdownWrite(s.fd)
}

func (s *socket) watch(p *poller, h handler, events uint32) syscall.Errno {
	id, e := p.watch(s.fd, events, h, s.tag)
	s.id, s.watched, s.forOut = id, e == 0, events&unix.EPOLLOUT != 0
	return e
}

func (s *socket) unwatch(p *poller) {
	if s.watched {
		p.unwatch(s.fd, s.id)
		s.watched = false
	}
}

// close closes the socket, if there is one. A closed descriptor leaves the epoll set by itself, unless others have it.
func (s *socket) close(p *poller, shared bool, closeFd func(int)) {
	if s.fd < 0 {
		return
	}
	switch {
	case s.watched && shared:
		s.unwatch(p)
	case s.watched:
		p.forget(s.id)
		s.watched = false
	}
	closeFd(s.fd)
	s.fd, s.guarded = -1, false
}

// note keeps what an event has reported.
func (s *socket) note(events uint32, now time.Duration) {
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.readable = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.hup = true
	}
	if events&unix.EPOLLERR != 0 {
		s.failed = true
	}
	if events&unix.EPOLLPRI != 0 {
		s.urgent = true
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.writable = true
		s.blocked.End(now)
	}
}

// full notes that the send buffer is full, and has the poller report when it no longer is.
func (s *socket) full(p *poller) {
	s.writable = false
	s.blocked.Begin(p.clock())
	if s.watched && !s.forOut {
		s.forOut = true
		p.rewatch(s.fd, s.id, streamEvents)
	}
}

// become makes s the socket that another was, to which nothing was written yet.
func (s *socket) become(o *socket) {
	s.fd, s.id, s.watched, s.forOut, s.tag = o.fd, o.id, o.watched, o.forOut, o.tag
	s.readable, s.writable, s.hup, s.failed, s.urgent = o.readable, o.writable, o.hup, o.failed, o.urgent
}

// save returns what a successor has to know of the socket.
func (s *socket) save(now time.Duration) splice.SavedSocket {
	return splice.SavedSocket{Urgent: s.urgent, Full: s.blocked.Blocked(), Blocked: s.blocked.Until(now)}
}

func (s *socket) restore(from splice.SavedSocket, now time.Duration) {
	s.urgent = from.Urgent
	s.blocked.Restore(from.Blocked, from.Full, now)
}
