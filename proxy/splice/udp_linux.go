package splice

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
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

// retarget ends the sessions whose endpoint no longer serves, and has the others wait as long as the new policy says.
func (u *udpSocket) retarget(v *View) {
	u.l.do(func() {
		for s := u.byUse.first; s != nil; {
			next := s.next
			switch e, _ := v.endpoint(s.sought()); {
			case e.Ready || e.Serving:
			case s.parked:
				s.gone = true
			default:
				s.end(Proxy, Reset, OutcomeEndpointRemoved)
			}
			s = next
		}
		u.sweep(u.l.now)
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

func (u *udpSocket) expired(now time.Duration) {
	if !u.watched {
		u.start()
	}
	u.sweep(now)
}

// sweep ends the sessions that were silent for too long, and waits for the next. All sessions of a socket have the same
// patience, that of the front's present policy, so the least recently used are the first to go.
func (u *udpSocket) sweep(now time.Duration) {
	idle := u.front.present().policy.UDPIdle
	for idle > 0 && u.byUse.first != nil && u.byUse.first.last+idle <= now {
		u.byUse.first.end(Proxy, Timeout, OutcomeOK)
	}
	switch s := u.byUse.first; {
	case !u.watched: // the timer is for another start
	case s == nil || idle < 0:
		u.l.timers.stop(&u.timer)
	default:
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
		data, client, local, iface := d.datagram(i)
		u.deliver(data, client, local, iface)
	}
}

func (u *udpSocket) deliver(data []byte, client *sockaddr, local netip.Addr, iface uint32) {
	key := sessionKey{client.addr(), local}
	s := u.sessions[key]
	if s == nil {
		if s = u.admit(key, *client, iface); s == nil {
			return
		}
	}
	s.send(data)
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
