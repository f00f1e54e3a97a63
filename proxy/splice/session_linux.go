package splice

import (
	"bytes"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// keptUnanswered bounds the first datagram that a session keeps for another endpoint, in bytes. Questions are short.
const keptUnanswered = 4096

// session is a UDP client, or rather its address, and its socket to an endpoint.
type session struct {
	sock       *udpSocket
	key        sessionKey
	name       sockaddr // of the client
	plan       *plan
	fd         int
	id         uint32
	iface      uint32 // index of the interface that the client came in by
	watched    bool
	over       bool
	scope      service.Scope // which endpoints are for the client
	began      time.Duration
	dialled    time.Duration // when the current attempt began
	last       time.Duration
	talker     *talker
	waiting    bool          // its last datagram was the client's
	leaving    bool          // its client's next datagram is another session's
	until      time.Duration // when it has left
	links      [2]sessionLinks
	unanswered []byte   // the first datagram, until anything came back: another endpoint may get it
	parked     bool     // until the host has answered a question
	gone       bool     // the endpoint to be dialled, meanwhile
	held       [][]byte // what the client sent meanwhile
	lease      Lease    // of the current attempt, and then of the session
	tried      []netip.AddrPort
	rec        Record
	attempt    [1]Attempt
}

func newSession(u *udpSocket, key sessionKey, name sockaddr, iface uint32) *session {
	s := &session{
		sock: u, key: key, name: name, iface: iface, plan: u.front.present(), fd: -1, began: u.l.now, last: u.l.now,
		waiting: true,
	}
	s.rec = Record{
		ID: u.front.engine.nextID.Add(1), Start: time.Now(), Service: u.front.name, Client: key.client,
		Connect: -1, FirstByte: -1, Attempts: s.attempt[:0],
	}
	return s
}

// dial picks an endpoint and connects a socket to it. The outcome is empty when that worked, or has to wait.
func (s *session) dial() Outcome {
	e := s.sock.front.engine
	for len(s.rec.Attempts) < len(s.plan.policy.ConnectTimeouts) {
		var ok bool
		if s.lease, ok = s.sock.front.pickers[s.scope].Pick(s.key.client.Addr(), s.tried); !ok {
			break
		}
		addr := s.lease.Endpoint
		s.rec.Affinity = s.lease.Affinity
		s.dialled = s.sock.l.clock()
		s.rec.Attempts = append(s.rec.Attempts, Attempt{Endpoint: addr, Times: 1})
		client := s.key.client.Addr()
		asClient, known := e.showsClient(s.plan, client, addr.Addr())
		if !known {
			s.park(func() bool { return e.opts.Returns(client, addr.Addr()) }, s.resume)
			return ""
		}
		if o, done := s.reach(asClient); done {
			return o
		}
	}
	if len(s.rec.Attempts) == 0 {
		return OutcomeNoEndpoint
	}
	return OutcomeDialFailed
}

// reach makes the current attempt. Not done: it failed, and another may be made.
func (s *session) reach(asClient bool) (o Outcome, done bool) {
	a := &s.rec.Attempts[len(s.rec.Attempts)-1]
	errno := s.connect(a.Endpoint, asClient)
	if errno == 0 {
		now := s.sock.l.clock()
		a.Proxy, a.Took = localAddr(s.fd), now-s.dialled
		s.lease.Dialled(nil, a.Took)
		s.rec.Endpoint = s.sock.front.endpoint(s.plan, a.Endpoint)
		s.rec.Connect = now - s.began
		return "", true
	}
	s.failed(errno)
	if s.sock.l.engine.short(errno) {
		return OutcomeResources, true
	}
	return "", false
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
	if n := len(s.rec.Attempts); s.parked && n > 0 {
		return s.rec.Attempts[n-1].Endpoint
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
	s.report(by, how, o)
}

// depart undoes enter, as far as it is for the client.
func (s *session) depart() {
	u := s.sock
	delete(u.sessions, s.key)
	s.unlist()
	u.front.leave()
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

func (s *session) report(by Side, how How, o Outcome) {
	s.rec.ClosedBy, s.rec.How, s.rec.Outcome = by, how, o
	now := s.sock.l.clock()
	s.rec.Duration = now - s.began
	s.lease.GiveUp(now - s.dialled)
	s.lease.Ended(!s.rec.brokenByEndpoint(), s.rec.BytesToEndpoint, s.rec.BytesFromEndpoint)
	s.sock.front.observer.Observe(&s.rec)
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
func (s *session) connect(addr netip.AddrPort, asClient bool) syscall.Errno {
	fd, e := sysSocket(family(addr.Addr()), unix.SOCK_DGRAM)
	if e != 0 {
		return e
	}
	s.fd = fd
	s.sock.l.engine.mark(fd)
	if asClient {
		s.sock.l.engine.showClient(fd, s.key.client.Addr())
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

// failed notes that the current endpoint is of no use and closes the socket to it.
func (s *session) failed(e syscall.Errno) {
	a := &s.rec.Attempts[len(s.rec.Attempts)-1]
	a.Err, a.Took = e.Error(), s.sock.l.clock()-s.dialled
	if s.lease.connected {
		s.lease.Ended(false, 0, 0) // what was sent is lost
	} else {
		s.lease.Dialled(ofEndpoint(e), a.Took)
	}
	s.tried = append(s.tried, a.Endpoint)
	s.closeSocket()
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
	if s.parked {
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
	s.failed(e)
	if o := s.dial(); o != "" {
		s.end(Endpoint, Reset, o)
		return false
	}
	if s.parked {
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
			s.rec.FirstByte = s.sock.l.clock() - s.began
			s.unanswered = nil
		}
		s.touch(false)
	}
}
