package epoll

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// session is the socket of a Session to its endpoint.
type session struct {
	splice.Session
	u      *udpSocket
	client udpClient
	limit  segmentLimit // of the path to the endpoint
	fd     int
	dup    int // of fd, while the session is handed over; else -1

	bulk    bool // its endpoint has sent in bulk
	drops   drops
	id      uint32
	watched bool
}

// Dial implements SessionConn.
func (s *session) Dial(endpoint netip.AddrPort, as netip.Addr, first []byte) (netip.AddrPort, splice.Shortage, error) {
	if e := s.connect(endpoint, as); e != 0 {
		s.Close()
		return netip.AddrPort{}, s.u.l.dialer.shortage(e), e
	}
	if first != nil {
		sysSend(s.fd, first)
	}
	return localAddr(s.fd), splice.Enough, nil
}

func (s *session) connect(endpoint netip.AddrPort, as netip.Addr) syscall.Errno {
	l := s.u.l
	fd, e := sysSocket(family(endpoint.Addr()), unix.SOCK_DGRAM)
	if e != 0 {
		return e
	}
	s.fd, s.limit, s.bulk, s.drops = fd, 0, false, drops{}
	l.dialer.mark(fd)
	if as.IsValid() {
		l.dialer.showClient(fd, as)
	}
	var sa sockaddr
	sa.set(endpoint)
	if e := sysConnect(fd, &sa); e != 0 {
		return e
	}
	return s.watch()
}

func (s *session) watch() syscall.Errno {
	id, e := s.u.l.watch(s.fd, unix.EPOLLIN, s, 0)
	s.id, s.watched = id, e == 0
	return e
}

// Detach implements splice.MovingSession.
func (s *session) Detach(saved *splice.SavedSession) int {
	saved.Interface = s.client.iface
	if saved.Client.Addr().Is6() {
		saved.Zone = s.client.name.raw.Scope_id
	}
	if s.watched {
		s.u.l.unwatch(s.fd, s.id)
		s.watched = false
	}
	if s.bulk {
		s.countDrops()
	}
	dup, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0) // the session may end meanwhile
	if err != nil {
		dup = -1
	}
	s.dup = dup
	return dup
}

// Resume implements splice.MovingSession.
func (s *session) Resume() {
	s.closeDup()
	if s.fd < 0 {
		return // it waits for an endpoint
	}
	if e := s.watch(); e != 0 {
		s.u.l.core.Options().Warn(e) // its answers are lost, and it ends when it is idle
	}
}

func (s *session) closeDup() {
	if s.dup >= 0 {
		sysClose(s.dup)
		s.dup = -1
	}
}

// Close implements SessionConn.
func (s *session) Close() {
	s.closeDup()
	if s.fd < 0 {
		return
	}
	if s.watched {
		s.u.l.forget(s.id)
		s.watched = false
	}
	if s.bulk {
		s.countDrops()
	}
	sysClose(s.fd)
	s.fd = -1
}

// Forward implements SessionConn.
func (s *session) Forward(data []byte) {
	if s.Buffer(data) {
		return
	}
	switch _, e := sysSend(s.fd, data); e {
	case 0:
		s.Sent(len(data))
	case unix.ECONNREFUSED: // about an earlier datagram; this one was not sent
		s.Refused(e, data)
	default: // a full queue, a datagram too large, no route: lost, as datagrams may be
		s.Dropped()
	}
}

// take has a datagram of the client leave with the next ones, of which send sends the last.
func (s *session) take(data []byte, together *segments) {
	s.Received(data, s.u.l.now)
	if s.Buffer(data) {
		return
	}
	if !together.add(data) {
		s.send(together)
		together.add(data)
	}
}

// send forwards datagrams that have come one after the other and not been buffered, and forgets them.
func (s *session) send(all *segments) {
	next := 0
	if all.n > 1 && s.fd >= 0 && s.limit.allows(all.size) {
		switch e := all.send(s.fd); {
		case e == 0:
			s.Sent(all.bytes)
			next = all.n
		case e == unix.ECONNREFUSED: // none was sent, as in Forward
			s.Refused(e, all.data(0))
			next = 1
		case cannotSegment(e):
			s.limit = segmentLimit(all.size)
		default:
			for ; next < all.n; next++ {
				s.Dropped()
			}
		}
	}
	for ; next < all.n; next++ {
		if s.Over() {
			s.u.deliver(all.data(next), &s.client)
		} else {
			s.Forward(all.data(next))
		}
	}
	all.n = 0
}

// ready receives replies and queues them for the client.
func (s *session) ready(uint32, uint8) {
	if s.Over() {
		return
	}
	n, size, e := s.u.l.dgrams.reply(s.u.fd, s.fd, &s.client)
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
	case e == unix.EMSGSIZE: // an earlier datagram was too large for the way: the next is sent in fragments
		s.Dropped()
	case e != 0:
		s.Refused(e, nil)
	case n > 0:
		s.Replied(size, s.u.l.now)
		if n == repliesAtOnce {
			s.inBulk()
		}
	}
}

// inBulk gives the socket of an endpoint that sends in bulk more room, and counts what it had no room for.
func (s *session) inBulk() {
	if !s.bulk {
		s.bulk = true
		setReceiveBuffer(s.fd)
	}
	s.countDrops()
}

// countDrops counts datagrams of the endpoint that the socket had no room for.
func (s *session) countDrops() {
	if n := s.drops.more(s.fd); n > 0 {
		s.u.sessions.ReceiveBufferFull(n)
	}
}
