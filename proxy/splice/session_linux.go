package splice

import (
	"bytes"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keptUnanswered bounds the first datagram that a session keeps for another endpoint, in bytes. Questions are short.
const keptUnanswered = 4096

// session is a UDP client, or rather its address, and its socket to an endpoint.
type session struct {
	life
	sock       *udpSocket
	key        sessionKey
	name       sockaddr // of the client
	fd         int
	id         uint32
	iface      uint32 // index of the interface that the client came in by
	watched    bool
	over       bool
	talker     *talker
	waiting    bool          // its last datagram was the client's
	leaving    bool          // its client's next datagram is another session's
	until      time.Duration // when it has left
	links      [2]sessionLinks
	unanswered []byte   // the first datagram, until anything came back: another endpoint may get it
	held       [][]byte // what the client sent while the host was asked
}

func newSession(u *udpSocket, key sessionKey, name sockaddr, iface uint32) *session {
	s := &session{sock: u, key: key, name: name, iface: iface, fd: -1, waiting: true}
	s.life.begin(u.front, key.client, u.l.now)
	return s
}

// advance takes the steps that come next. The outcome is empty when an endpoint was connected, or the host was asked.
func (s *session) advance(next step) Outcome {
	for next.kind == stepDial {
		errno := s.connect(next.endpoint, next.as)
		if errno == 0 {
			s.current().Proxy = localAddr(s.fd)
			s.connected(s.sock.l.clock())
			return ""
		}
		next = s.failed(errno, s.sock.l.engine.short(errno))
	}
	if next.kind == stepAsk {
		s.park(next.ask)
		return ""
	}
	return next.outcome
}

// enter makes the session known.
func (s *session) enter() {
	u := s.sock
	u.sessions[s.key] = s
	s.list()
	u.front.engine.sessions.Add(1)
	if idle := u.front.present().policy.UDPIdle; idle > 0 && u.timer.index == 0 {
		u.l.timers.set(&u.timer, u.l.now+idle)
	}
}

// sought is the endpoint that the session has, or is to be connected to.
func (s *session) sought() netip.AddrPort {
	if s.dialing {
		return s.current().Endpoint
	}
	return s.rec.Endpoint.Addr
}

// end closes a session that was entered.
func (s *session) end(by Side, how How, o Outcome) {
	if s.over {
		return
	}
	s.over = true
	u := s.sock
	s.closeSocket()
	if s.leaving {
		s.unlist()
	} else {
		s.depart()
	}
	u.front.engine.account.giveSession(s.talker.holder)
	u.hangUp(s.talker)
	u.front.engine.sessions.Add(-1)
	s.report(by, how, o, u.l.clock())
}

// depart undoes enter, as far as it is for the client.
func (s *session) depart() {
	u := s.sock
	delete(u.sessions, s.key)
	s.unlist()
	s.uncount()
}

// list puts the session last in its row, of the socket and of the client.
func (s *session) list() {
	s.sock.byUse.row(s).append(s)
	s.talker.byUse.row(s).append(s)
}

func (s *session) unlist() {
	s.sock.byUse.row(s).remove(s)
	s.talker.byUse.row(s).remove(s)
}

// lastAnswers is how long an endpoint that was taken away has for answers to what it was asked.
const lastAnswers = 3 * time.Second

// leave has the client's next datagram begin another session. This one passes on what its endpoint still answers.
func (s *session) leave() {
	s.depart()
	s.leaving, s.until = true, s.sock.l.now+lastAnswers
	s.list()
}

func (s *session) cut() {
	if u := s.sock; !u.draining { // else the socket sees to it
		s.end(Proxy, Reset, OutcomeCut)
	}
}

func (s *session) closeSocket() {
	if s.fd < 0 {
		return
	}
	if s.watched {
		s.sock.l.forget(s.id)
		s.watched = false
	}
	sysClose(s.fd)
	s.fd = -1
}

// touch makes the session the most recently used of those that wait for their endpoint, or of the others.
func (s *session) touch(waiting bool) {
	s.last = s.sock.l.now
	if s.leaving && s.waiting == waiting {
		return // however much comes, it has left by the same time
	}
	s.unlist()
	s.waiting = waiting
	s.list()
}

// connect makes a socket that sends to one endpoint and receives from it alone.
func (s *session) connect(addr netip.AddrPort, as netip.Addr) syscall.Errno {
	fd, e := sysSocket(family(addr.Addr()), unix.SOCK_DGRAM)
	if e != 0 {
		return e
	}
	s.fd = fd
	s.sock.l.engine.mark(fd)
	if as.IsValid() {
		s.sock.l.engine.showClient(fd, as)
	}
	var sa sockaddr
	sa.set(addr)
	if e := sysConnect(fd, &sa); e != 0 {
		return e
	}
	id, e := s.sock.l.watch(fd, unix.EPOLLIN, s, 0)
	s.id, s.watched = id, e == 0
	return e
}

// failed closes the socket to the current endpoint, which is of no use.
func (s *session) failed(err error, lack Shortage) step {
	s.closeSocket()
	return s.life.failed(err, lack, s.sock.l.clock())
}

// send passes a datagram of the client on.
func (s *session) send(data []byte) {
	s.rec.BytesFromClient += int64(len(data))
	s.touch(true)
	if s.rec.FirstByte < 0 && s.unanswered == nil && len(data) <= keptUnanswered {
		s.unanswered = bytes.Clone(data)
	}
	s.forward(data)
}

// forward sends a datagram to the endpoint, or to another when this one is found gone.
func (s *session) forward(data []byte) {
	if s.waitsForHost() {
		s.hold(data)
		return
	}
	_, e := sysSend(s.fd, data)
	switch {
	case e == 0:
		s.rec.BytesToEndpoint += int64(len(data))
	case e != unix.ECONNREFUSED: // a full queue, a datagram too large, no route: lost, as datagrams may be
		s.sock.front.engine.udpDropped.Add(1)
	case s.refused(e): // told of an earlier datagram; this one was not sent
		s.forward(data)
	default:
		s.sock.deliver(data, &s.name, s.key.local, s.iface)
	}
}

// refused is told that the endpoint has nobody at its port, or cannot be reached. A session that never had an answer moves to another
// endpoint and takes its first datagram along: true. Any other is over, and the client's next datagram picks anew.
func (s *session) refused(e syscall.Errno) bool {
	if s.leaving {
		s.end(Proxy, Reset, OutcomeEndpointRemoved)
		if s.unanswered != nil {
			s.sock.deliver(s.unanswered, &s.name, s.key.local, s.iface)
		}
		return false
	}
	if s.unanswered == nil {
		s.rec.Error = e.Error()
		s.end(Endpoint, Reset, OutcomeEndpointReset)
		return false
	}
	if o := s.advance(s.failed(e, Enough)); o != "" {
		s.end(Endpoint, Reset, o)
		return false
	}
	if s.waitsForHost() {
		s.hold(s.unanswered)
	} else {
		sysSend(s.fd, s.unanswered)
	}
	return true
}

// ready receives replies and queues them for the client.
func (s *session) ready(uint32, uint8) {
	if s.over {
		return
	}
	n, e := s.sock.l.dgrams.reply(s)
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
	case e == unix.EMSGSIZE: // an earlier datagram was too large for the way: the next is sent in fragments
		s.sock.front.engine.udpDropped.Add(1)
	case e != 0:
		s.refused(e)
	case n > 0:
		if s.rec.FirstByte < 0 {
			s.firstByte(s.sock.l.clock())
			s.unanswered = nil
		}
		s.touch(false)
	}
}
