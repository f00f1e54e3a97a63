package splice

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// SessionSocket is the bound UDP socket that Sessions belong to, as far as they need it.
type SessionSocket interface {
	// Do calls f soon, but not before it returns, on the goroutine that owns the Sessions, or while it holds the lock
	// that guards them. False: f is never called, since the engine has ended.
	Do(f func()) bool
	// SetTimer has Sweep called at that time, in place of any time set before; a negative time means never.
	SetTimer(at time.Duration)
	// Deliver takes a datagram as if the client of that session had just sent it.
	Deliver(data []byte, of SessionConn)
}

// SessionKey identifies a session: the client, and the local address that it writes to.
type SessionKey struct {
	Client netip.AddrPort
	Local  netip.Addr
}

// Sessions are the sessions of the clients that write to one bound UDP socket. They are owned by one goroutine, or
// guarded by a lock of the engine: every method is called by that owner, but for Drain. Times are on the core's clock.
type Sessions struct {
	front    *Front
	port     uint16
	socket   SessionSocket
	guarded  atomic.Bool  // rules let nothing but portals' traffic reach the socket
	n        atomic.Int64 // sessions of all clients
	closed   bool
	draining bool // no session begins any more
	attached map[SessionKey]*Session
	lists    sessionLists // attached sessions, and detached ones, whose endpoints may still answer
	clients  map[netip.Addr]*sessionClient
	largest  quota.Largest[sessionClient]
	sweepAt  time.Duration // when the next session ends by itself; negative: none does
}

// NewSessions returns the sessions of a socket that is bound to a port, until Close.
func NewSessions(f *Front, port uint16, socket SessionSocket) *Sessions {
	t := &Sessions{
		front: f, port: port, socket: socket, attached: map[SessionKey]*Session{}, lists: newSessionLists(ofSocket),
		clients: map[netip.Addr]*sessionClient{}, sweepAt: -1,
	}
	f.quota.AddSocket(t.room())
	return t
}

// Front is the one of the socket.
func (t *Sessions) Front() *Front { return t.front }

func (t *Sessions) core() *Core { return t.front.core }

// Find returns the session that takes a client's datagrams, as it was opened; nil: none does.
func (t *Sessions) Find(key SessionKey) SessionConn {
	if s := t.attached[key]; s != nil {
		return s.conn
	}
	return nil
}

// Open begins a session, in place, for a client that came in by the interface with that index (0: not known). False:
// there can be none, and it was reported, unless the socket takes no clients any more.
func (t *Sessions) Open(s *Session, conn SessionConn, key SessionKey, iface int, now time.Duration) bool {
	if t.draining || t.closed {
		return false
	}
	s.table, s.conn, s.key, s.awaitingReply = t, conn, key, true
	s.life.begin(t.front, key.Client, now)
	if o := s.admit(iface); o != "" {
		s.life.result.conclude(ending{record.Proxy, record.Reset, o, nil})
		s.life.report(t.core().Now(), nil)
		return false
	}
	t.attached[key] = s
	s.enlist()
	t.core().counts.sessions.Add(1)
	t.core().Registry.add(sessionMember{s})
	if idle := t.front.present().policy.UDPIdle; idle > 0 && t.sweepAt < 0 {
		t.setTimer(now + idle)
	}
	return true
}

// ReceiveBufferFull counts datagrams that the kernel dropped since a receive buffer was full, the socket's or one of a
// session.
func (t *Sessions) ReceiveBufferFull(datagrams uint32) {
	t.core().opts.Warn(&ReceiveBufferError{t.front.name, datagrams})
}

// Drain lets no more sessions begin. It may be called by any goroutine.
func (t *Sessions) Drain() { t.socket.Do(func() { t.draining = true }) }

// Close ends all sessions, since their service port was removed. No more begin. It may be called more than once.
func (t *Sessions) Close() {
	if t.closed {
		return
	}
	t.closed = true
	t.front.quota.RemoveSocket(t.room())
	t.endAll(record.OutcomeEndpointRemoved, &t.lists.detached, &t.lists.detachedAwaitingReply)
	t.endAll(record.OutcomeServiceRemoved, &t.lists.answered, &t.lists.awaitingReply)
	t.setTimer(-1)
}

func (t *Sessions) endAll(o record.Outcome, lists ...*sessionList) {
	for _, list := range lists {
		for s := list.first; s != nil; s = list.first {
			s.end(record.Proxy, record.Reset, o)
		}
	}
}

// Sweep ends the sessions that were silent or have been detached for too long, and sets the timer for the next. All
// sessions of a socket have the idle timeout of the front's present policy, so the least recently used end first.
func (t *Sessions) Sweep(now time.Duration) {
	next := time.Duration(-1)
	due := func(at time.Duration) bool {
		if at > now && (next < 0 || at < next) {
			next = at
		}
		return at <= now
	}
	for _, list := range []*sessionList{&t.lists.detached, &t.lists.detachedAwaitingReply} {
		for s := list.first; s != nil && due(s.until); s = list.first {
			s.end(record.Proxy, record.Reset, record.OutcomeEndpointRemoved)
		}
	}
	idle := t.front.present().policy.UDPIdle
	for s := t.lists.leastRecent(); s != nil && idle > 0 && due(s.life.entry.lastMoved()+idle); s = t.lists.leastRecent() {
		if s.waiter().waits() {
			s.end(record.Proxy, record.Timeout, record.OutcomeNoEndpoint)
		} else {
			s.end(record.Proxy, record.Timeout, record.OutcomeOK)
		}
	}
	t.setTimer(next)
}

func (t *Sessions) setTimer(at time.Duration) {
	t.sweepAt = at
	t.socket.SetTimer(at)
}

// retarget detaches the sessions whose endpoint no longer serves, and gives the others the idle timeout of the new
// policy. It may be called by any goroutine, as may the methods that follow.
func (t *Sessions) retarget(v *View) {
	t.socket.Do(func() {
		now := t.core().Now()
		for _, s := range t.attached {
			switch e := v.endpoint(s.target()); {
			case s.waiter().waits(): // it is told by its queue
			case e != nil && (e.Ready || e.Serving):
			case s.life.dial.lookupPending():
				s.life.dial.removed = true
			default:
				s.detach(now)
			}
		}
		t.Sweep(now)
	})
}

// setGuarded sets whether rules let nothing but portals' traffic reach the socket.
func (t *Sessions) setGuarded(on bool) { t.guarded.Store(on) }

// sweepSoon applies a new idle timeout.
func (t *Sessions) sweepSoon() { t.socket.Do(func() { t.Sweep(t.core().Now()) }) }

// cutSoon ends all sessions by force. Of a socket that was drained only those that wait for an answer are cut.
func (t *Sessions) cutSoon() {
	t.socket.Do(func() {
		t.endAll(record.OutcomeCut, &t.lists.awaitingReply)
		if !t.draining {
			t.endAll(record.OutcomeCut, &t.lists.answered, &t.lists.detached, &t.lists.detachedAwaitingReply)
		}
	})
}

// replyPending replies whether a session waits for an answer that may be under way.
func (t *Sessions) replyPending(reply chan<- bool) {
	pending := func() { reply <- t.awaitsReply(t.core().Now()) }
	if !t.socket.Do(pending) {
		reply <- false
	}
}

// awaitsReply tells whether a session waits for an answer that may be under way.
func (t *Sessions) awaitsReply(now time.Duration) bool {
	s := t.lists.awaitingReply.last
	return t.lists.detachedAwaitingReply.first != nil || s != nil && now < s.life.entry.lastMoved()+answerTime
}

// originalDst is the address that the client wrote to. Once rules guard the port only translated flows get here, so
// where the front has a single frontend it was that one; a lookup in the kernel is an eighth of a short session's cost.
// A NodePort stands for several addresses, of which the kernel knows the one. False: it could not be asked.
func (t *Sessions) originalDst(key SessionKey, p *plan) (dst netip.AddrPort, known bool) {
	local := netip.AddrPortFrom(key.Local, t.port)
	lookup := t.core().opts.OriginalDstUDP
	if lookup == nil {
		return local, true
	}
	if t.guarded.Load() && len(p.Exposures) == 1 && p.Exposures[0].Kind != service.NodePort {
		return p.Exposures[0].Frontend.Addr, true
	}
	dst, err := lookup(key.Client, local)
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		t.core().opts.Warn(err)
		return local, false
	case err != nil:
		return local, true
	}
	return dst, true
}
