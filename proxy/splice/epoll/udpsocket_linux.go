package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// udpSocket is a bound UDP socket of a front. One loop owns it and its sessions.
type udpSocket struct {
	l        *loop
	sessions *splice.Sessions
	fd       int
	id       uint32
	watched  bool
	closed   bool
	paused   bool
	timer    timer // of the sessions; until the socket is watched, of another try to watch it
}

func openUDP(e *engine, f *splice.Front, fd int, port uint16, paused bool) *udpSocket {
	u := &udpSocket{l: e.loops.turn(), fd: fd, paused: paused}
	u.timer.owner = u
	u.sessions = splice.NewSessions(f, port, u)
	u.l.do(u.start)
	return u
}

func (u *udpSocket) start() {
	if u.l.dgrams == nil {
		u.l.dgrams = newDatagrams(u.l.core)
	}
	if u.paused {
		return
	}
	id, e := u.l.watch(u.fd, unix.EPOLLIN, u, 0)
	u.id, u.watched = id, e == 0
	if e != 0 {
		u.l.core.Options().Warn(e)
		u.l.timers.set(&u.timer, u.l.now+splice.ShortagePause().Last)
	}
}

// Sessions implements Socket.
func (u *udpSocket) Sessions() splice.SessionTable { return u.sessions }

// Drain implements Socket.
func (u *udpSocket) Drain() { u.sessions.Drain() }

// Close implements Socket.
func (u *udpSocket) Close() { u.l.do(u.shut) }

func (u *udpSocket) shut() {
	if u.closed {
		return
	}
	u.sessions.Close()
	u.closed = true
	u.l.dgrams.flush()
	u.l.timers.stop(&u.timer)
	if u.watched {
		u.l.unwatch(u.fd, u.id)
	}
	sysClose(u.fd)
	u.sessions.Front().ListenerClosed()
}

// File implements splice.MovingSocket.
func (u *udpSocket) File() int { return u.fd }

// Pause implements splice.SessionMover.
func (u *udpSocket) Pause() {
	if u.paused || u.closed {
		return
	}
	u.paused = true
	u.l.dgrams.flush()
	u.l.timers.stop(&u.timer)
	if u.watched {
		u.l.unwatch(u.fd, u.id)
		u.watched = false
	}
}

// Resume implements splice.SessionMover.
func (u *udpSocket) Resume() {
	if !u.paused || u.closed {
		return
	}
	u.paused = false
	u.start()
	u.sessions.Sweep(u.l.clock())
}

// Restore implements splice.SessionMover.
func (u *udpSocket) Restore(saved *splice.SavedSession, file int) {
	if u.closed {
		if file >= 0 {
			sysClose(file)
		}
		return
	}
	from := udpClient{local: saved.Local, iface: saved.Interface}
	from.name.set(saved.Client)
	if saved.Client.Addr().Is6() {
		from.name.raw.Scope_id = saved.Zone
	}
	s := &session{u: u, client: from, fd: file, dup: -1}
	u.sessions.Restore(&s.Session, s, saved)
	s.Resume()
}

// Do implements SessionSocket.
func (u *udpSocket) Do(f func()) bool { return u.l.do(f) }

// SetTimer implements SessionSocket.
func (u *udpSocket) SetTimer(at time.Duration) {
	switch {
	case !u.watched: // expired sweeps
	case at < 0:
		u.l.timers.stop(&u.timer)
	default:
		u.l.timers.set(&u.timer, at)
	}
}

func (u *udpSocket) expired(now time.Duration) {
	if !u.watched {
		u.start()
	}
	u.sessions.Sweep(now)
}

// ready receives a batch of datagrams from clients and hands each to its session.
func (u *udpSocket) ready(uint32, uint8) {
	if u.closed {
		return
	}
	d := u.l.dgrams
	n, e := d.receive(u.fd)
	if e != 0 {
		return // EAGAIN, or a pending error, which is cleared by now
	}
	for i := range n {
		data, from := d.datagram(i)
		u.deliver(data, from)
	}
}

func (u *udpSocket) deliver(data []byte, from *udpClient) {
	key := splice.SessionKey{Client: from.name.addr(), Local: from.local}
	s, ok := u.sessions.Find(key).(*session)
	if !ok {
		s = &session{u: u, client: *from, fd: -1, dup: -1}
		if !u.sessions.Open(&s.Session, s, key, int(from.iface), u.l.now) {
			return
		}
	}
	s.Received(data, u.l.now)
	s.Forward(data)
}

// Deliver implements SessionSocket.
func (u *udpSocket) Deliver(data []byte, of splice.SessionConn) {
	u.deliver(data, &of.(*session).client)
}
