package splice

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// udpSocket is a bound UDP socket of a front and the sessions of the clients that write to it. One loop owns it.
type udpSocket struct {
	front    *Front
	l        *loop
	fd       int
	port     uint16
	id       uint32
	watched  bool
	closed   bool
	sessions map[sessionKey]*session
	byUse    sessionList // least recently used first
	timer    timer       // of the least recently used
}

// sessionKey is what makes a session: who writes, and to which local address.
type sessionKey struct {
	client netip.AddrPort
	local  netip.Addr
}

func openUDP(f *Front, fd int, port uint16) *udpSocket {
	e := f.engine
	e.reserve(1)
	u := &udpSocket{front: f, l: e.loops[int(e.turn.Add(1))%len(e.loops)], fd: fd, port: port, sessions: map[sessionKey]*session{}}
	u.timer.owner = u
	u.l.do(u.start)
	return u
}

func (u *udpSocket) start() {
	if u.l.dgrams == nil {
		u.l.dgrams = newDatagrams()
	}
	id, e := u.l.watch(u.fd, unix.EPOLLIN, u, 0)
	u.id, u.watched = id, e == 0
	if e != 0 {
		u.front.engine.opts.Trouble(e)
		u.l.timers.set(&u.timer, u.l.now+lastPause)
	}
}

// retarget ends the sessions whose endpoint no longer serves.
func (u *udpSocket) retarget(v *View) {
	u.l.do(func() {
		for s := u.byUse.first; s != nil; {
			next := s.next
			if e := v.endpoint(s.rec.Endpoint.Addr); !e.Ready && !e.Serving {
				s.end(Proxy, Reset, OutcomeEndpointRemoved)
			}
			s = next
		}
	})
}

func (u *udpSocket) close() {
	u.l.do(func() {
		u.closed = true
		for u.byUse.first != nil {
			u.byUse.first.end(Proxy, Reset, OutcomeServiceRemoved)
		}
		u.l.dgrams.flush()
		u.l.timers.stop(&u.timer)
		if u.watched {
			u.l.unwatch(u.fd, u.id)
		}
		sysClose(u.fd)
		u.front.engine.release(1)
	})
}

// expired ends the sessions that were silent for too long. All sessions of a socket have the same patience, so the
// least recently used are the first to go.
func (u *udpSocket) expired(now time.Duration) {
	if !u.watched {
		u.start()
	}
	idle := u.front.engine.opts.UDPIdle
	for u.byUse.first != nil && u.byUse.first.last+idle <= now {
		u.byUse.first.end(Proxy, Timeout, OutcomeOK)
	}
	if s := u.byUse.first; s != nil {
		u.l.timers.set(&u.timer, s.last+idle)
	}
}

// ready receives a batch of datagrams from clients and hands each to its session.
func (u *udpSocket) ready(uint32, uint8) {
	if u.closed {
		return
	}
	d := u.l.dgrams
	n, e := d.receive(u.fd)
	if e != 0 {
		return // EAGAIN, or a pending error that receiving has taken off
	}
	for i := range n {
		data, client, local := d.datagram(i)
		u.deliver(data, client, local)
	}
}

func (u *udpSocket) deliver(data []byte, client *sockaddr, local netip.Addr) {
	key := sessionKey{client.addr(), local}
	s := u.sessions[key]
	if s == nil {
		if s = u.admit(key, *client); s == nil {
			return
		}
	}
	s.send(data)
}

// admit opens a session for a client that wrote to one of this service port's frontends, nil if there can be none.
func (u *udpSocket) admit(key sessionKey, name sockaddr) *session {
	f := u.front
	s := &session{sock: u, key: key, name: name, view: f.view.Load(), fd: -1, began: u.l.now, last: u.l.now}
	s.rec = Record{
		ID: f.engine.nextID.Add(1), Start: u.l.start.Add(u.l.now), Service: f.name, Client: key.client,
		OriginalDst: u.originalDst(key, s.view), Connect: -1, FirstByte: -1, Attempts: s.attempt[:0],
	}
	exposed, ok := s.view.exposure(s.rec.OriginalDst)
	s.rec.Portal = exposed.Kind
	switch {
	case !ok:
		s.report(Proxy, Reset, OutcomeNotPortal)
	case !s.view.admits(key.client.Addr(), exposed.Kind):
		s.report(Proxy, Reset, OutcomeSourceRange)
	default:
		u.makeRoom()
		o := s.dial()
		if o == "" {
			s.enter()
			return s
		}
		u.front.engine.release(1)
		s.report(Proxy, Reset, o)
	}
	return nil
}

// makeRoom ends the least recently used session where a new one would be too many.
func (u *udpSocket) makeRoom() {
	e := u.front.engine
	if len(u.sessions) >= e.opts.UDPSessions {
		u.byUse.first.end(Proxy, Timeout, OutcomeLimit)
	}
	for !e.reserve(1) {
		e.opts.Trouble(errShare)
		if u.byUse.first == nil {
			e.descriptors.Add(1) // the last resort: the process as a whole has some to spare
			return
		}
		u.byUse.first.end(Proxy, Timeout, OutcomeLimit)
	}
}

// originalDst tells what the client wrote to. Only translated flows get here (a rule on the whole port range sees to
// that), so where the front has a single frontend it was that one; to ask the kernel is an eighth of a short session's
// cost. A NodePort stands for several addresses, of which the kernel knows the one.
func (u *udpSocket) originalDst(key sessionKey, v *View) netip.AddrPort {
	local := netip.AddrPortFrom(key.local, u.port)
	ask := u.front.engine.opts.OriginalDstUDP
	if ask == nil {
		return local
	}
	if len(v.Exposures) == 1 && v.Exposures[0].Kind != service.NodePort {
		return v.Exposures[0].Frontend.Addr
	}
	if dst, err := ask(key.client, local); err == nil {
		return dst
	}
	return local
}
