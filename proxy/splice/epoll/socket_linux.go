package epoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

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

// end closes the socket for writing: its peer sees a FIN, and the kernel sends what is before that, whoever dies.
func (s *socket) end() {
	s.unguard()
	sysShutdownWrite(s.fd)
}

func (l *loop) watchSocket(c *conn, s *socket, events uint32) syscall.Errno {
	id, e := l.watch(s.fd, events, c, s.tag)
	s.id, s.watched, s.forOut = id, e == 0, events&unix.EPOLLOUT != 0
	return e
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

// full notes that the send buffer is full, and has the loop report when it no longer is.
func (s *socket) full(l *loop) {
	s.writable = false
	s.blocked.Begin(l.clock())
	if s.watched && !s.forOut {
		s.forOut = true
		l.rewatch(s.fd, s.id, streamEvents)
	}
}

// readFailed is what an error of a read means for the flow.
func (s *socket) readFailed(e syscall.Errno) (progress, syscall.Errno) {
	if e == unix.EAGAIN {
		s.readable = false
		return blocked, 0
	}
	return sourceFailed, e
}
