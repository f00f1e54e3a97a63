package epoll

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// end is one of the two sockets.
type end struct {
	fd       int
	id       uint32
	watched  bool
	forOut   bool // and told when it can be written to
	readable bool
	writable bool
	hup      bool // FIN or reset is in: reads go on until they say so
	broken   bool // it has a pending error
	urgent   bool // it has sent an urgent byte
}

// Tags tell a conn which of its ends is ready.
const (
	tagClient uint8 = iota
	tagEndpoint
)

func (l *loop) watchEnd(c *conn, s *end, tag uint8, events uint32) syscall.Errno {
	id, e := l.watch(s.fd, events, c, tag)
	s.id, s.watched, s.forOut = id, e == 0, events&unix.EPOLLOUT != 0
	return e
}

// note keeps what an event said.
func (s *end) note(events uint32) {
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.readable = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.hup = true
	}
	if events&unix.EPOLLERR != 0 {
		s.broken = true
	}
	if events&unix.EPOLLPRI != 0 {
		s.urgent = true
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.writable = true
	}
}

// full notes that an end takes no more, and has the loop told when it does again.
func (s *end) full(l *loop) {
	s.writable = false
	if s.watched && !s.forOut {
		s.forOut = true
		l.rewatch(s.fd, s.id, streamEvents)
	}
}

// stopped tells what an error of a read means.
func (s *end) stopped(e syscall.Errno) (verdict, syscall.Errno) {
	if e == unix.EAGAIN {
		s.readable = false
		return waits, 0
	}
	return srcGone, e
}
