package epoll

import (
	"slices"
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
	// The last batch had buffers of segments: up to 64 datagrams each.
	segmented bool
	drops     drops
}

func openUDP(e *engine, f *splice.Front, fd int, port uint16, paused bool) *udpSocket {
	u := &udpSocket{l: e.loops.turn(), fd: fd, paused: paused}
	u.drops.more(fd) // which a predecessor has counted
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
	setGRO(u.fd, true)
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
	u.countDrops()
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
	setGRO(u.fd, false) // a successor of an older version would take a buffer of segments for one datagram
	for n := 0; u.receive() && n < mostQueued; n++ {
	}
	u.countDrops()
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
	if file >= 0 {
		s.drops.more(file) // which the predecessor has counted
	}
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
	u.receive()
}

// mostQueued is more batches than a socket's queue has.
const mostQueued = 64

// receive takes a batch from clients, and tells whether there may be more.
func (u *udpSocket) receive() bool {
	d := u.l.dgrams
	most := batch
	if u.segmented {
		most = segmentedBatch
	}
	n, e := d.receive(u.fd, most)
	if e != 0 {
		return false // EAGAIN, or a pending error, which is cleared by now
	}
	u.segmented = false
	for i := range n {
		d.parse(i)
		u.segmented = u.segmented || d.groSizes[i] > 0
	}
	if n == most { // a queue that overflows has more than that
		u.countDrops()
	}
	for i := range n {
		if !d.taken[i] {
			u.deliverOf(i, n)
		}
	}
	return n == most
}

// countDrops counts datagrams of clients that the socket had no room for.
func (u *udpSocket) countDrops() {
	if n := u.drops.more(u.fd); n > 0 {
		u.sessions.ReceiveBufferFull(n)
	}
}

// deliverOf hands the datagrams of one client, which are among n from the first one on, to its session. Several of one
// size leave in one call.
func (u *udpSocket) deliverOf(first, n int) {
	d, from := u.l.dgrams, &u.l.dgrams.in.clients[first]
	if d.groSizes[first] == 0 && !slices.Contains(d.tags[first+1:n], d.tags[first]) { // as in request and response
		u.deliver(d.buffer(first), from)
		return
	}
	key := from.key()
	var s *session
	for i := first; i < n; i++ {
		if i != first && (d.tags[i] != d.tags[first] || d.taken[i] || d.in.clients[i].key() != key) {
			continue
		}
		d.taken[i] = true
		for rest, more := d.buffer(i), true; more; {
			var data []byte
			data, rest, more = splitSegment(rest, d.groSizes[i])
			if s == nil || s.Over() {
				s = u.session(key, from)
			}
			if s != nil {
				s.take(data, &d.together)
			}
		}
	}
	if s != nil {
		s.send(&d.together)
	}
}

// session finds a client's session, or opens one. nil: it gets none.
func (u *udpSocket) session(key splice.SessionKey, from *udpClient) *session {
	if s, ok := u.sessions.Find(key).(*session); ok {
		return s
	}
	s := &session{u: u, client: *from, fd: -1, dup: -1}
	if !u.sessions.Open(&s.Session, s, key, int(from.iface), u.l.now) {
		return nil
	}
	return s
}

// deliver hands one datagram to its session.
func (u *udpSocket) deliver(data []byte, from *udpClient) {
	if s := u.session(from.key(), from); s != nil {
		s.Received(data, u.l.now)
		s.Forward(data)
	}
}

// Deliver implements SessionSocket.
func (u *udpSocket) Deliver(data []byte, of splice.SessionConn) {
	u.deliver(data, &of.(*session).client)
}
