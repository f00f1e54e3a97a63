package splice

import (
	"net/netip"
	"sync/atomic"
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
	draining bool        // no session begins any more
	guarded  atomic.Bool // nothing comes here but what portals lead
	sessions map[sessionKey]*session
	byUse    byUse // all of sessions, and those that leave: no longer among them, but their endpoints may still answer
	talkers  map[netip.Addr]*talker
	n        atomic.Int64 // sessions of all talkers
	timer    timer        // of who ends first
}

// sessionKey is what makes a session: who writes, and to which local address.
type sessionKey struct {
	client netip.AddrPort
	local  netip.Addr
}

func openUDP(e *epollEngine, f *Front, fd int, port uint16) *udpSocket {
	u := &udpSocket{
		front: f, l: e.loops[int(e.turn.Add(1))%len(e.loops)], fd: fd, port: port,
		sessions: map[sessionKey]*session{}, byUse: newByUse(ofSocket), talkers: map[netip.Addr]*talker{},
	}
	u.timer.owner = u
	f.tenant.add(u)
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

// retarget has the sessions leave whose endpoint no longer serves, and the others wait as long as the new policy says.
func (u *udpSocket) retarget(v *View) {
	u.l.do(func() {
		for _, s := range u.sessions {
			switch e, _ := v.endpoint(s.sought()); {
			case e.Ready || e.Serving:
			case s.waitsForHost():
				s.removed = true
			default:
				s.leave()
			}
		}
		u.sweep(u.l.now)
	})
}

func (u *udpSocket) setGuarded(on bool) { u.guarded.Store(on) }

func (u *udpSocket) sweepSoon() { u.l.do(func() { u.sweep(u.l.now) }) }

func (u *udpSocket) answerPending(reply chan<- bool) {
	if !u.l.do(func() { reply <- u.waits() }) {
		reply <- false
	}
}

// Drain implements Socket.
func (u *udpSocket) Drain() { u.l.do(func() { u.draining = true }) }

// Close implements Socket.
func (u *udpSocket) Close() { u.l.do(u.shut) }

func (u *udpSocket) shut() {
	if u.closed {
		return
	}
	u.closed = true
	u.front.tenant.remove(u)
	for _, row := range u.byUse.departing() {
		for s := row.first; s != nil; s = row.first {
			s.end(Proxy, Reset, OutcomeEndpointRemoved)
		}
	}
	for s := u.byUse.idlest(); s != nil; s = u.byUse.idlest() {
		s.end(Proxy, Reset, OutcomeServiceRemoved)
	}
	u.l.dgrams.flush()
	u.l.timers.stop(&u.timer)
	if u.watched {
		u.l.unwatch(u.fd, u.id)
	}
	sysClose(u.fd)
	u.front.engine.account.Close(1)
}

// cut ends a socket that was drained, with the engine; others are still the front's to close.
func (u *udpSocket) cut() {
	if !u.draining || u.closed {
		return
	}
	for s := u.byUse.waiting.first; s != nil; s = u.byUse.waiting.first {
		s.end(Proxy, Reset, OutcomeCut)
	}
	u.shut()
}

// waits tells whether a session waits for an answer that may be under way.
func (u *udpSocket) waits() bool {
	s := u.byUse.waiting.last
	return u.byUse.leavingWaiting.first != nil || s != nil && u.l.now < s.last+answerTime
}

func (u *udpSocket) expired(now time.Duration) {
	if !u.watched {
		u.start()
	}
	u.sweep(now)
}

// sweep ends the sessions that were silent or have been leaving for too long, and waits for the next. All sessions of a
// socket have the same patience, that of the front's present policy, so the least recently used are the first to go.
func (u *udpSocket) sweep(now time.Duration) {
	next := time.Duration(-1)
	due := func(at time.Duration) bool {
		if at > now && (next < 0 || at < next) {
			next = at
		}
		return at <= now
	}
	for _, row := range u.byUse.departing() {
		for s := row.first; s != nil && due(s.until); s = row.first {
			s.end(Proxy, Reset, OutcomeEndpointRemoved)
		}
	}
	idle := u.front.present().policy.UDPIdle
	for s := u.byUse.idlest(); s != nil && idle > 0 && due(s.last+idle); s = u.byUse.idlest() {
		s.end(Proxy, Timeout, OutcomeOK)
	}
	switch {
	case !u.watched: // the timer is for another start
	case next < 0:
		u.l.timers.stop(&u.timer)
	default:
		u.l.timers.set(&u.timer, next)
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
		if u.draining {
			return
		}
		if s = u.admit(key, *client, iface); s == nil {
			return
		}
	}
	s.send(data)
}
