package splice

import (
	"context"
	"net/netip"
	"time"
)

// SessionMover is a SessionSocket that can pass on its sessions. It is called by their owner.
type SessionMover interface {
	Pause()  // receives nothing from clients, until Resume
	Resume() // receives again
	// Restore goes on with a session of a predecessor, whose socket to the endpoint is the engine's from now on; negative:
	// it has none, since it waits for one.
	Restore(s *SavedSession, file int)
}

// MovingSession is a SessionConn that can be passed on. It is called by the owner of the Sessions.
type MovingSession interface {
	// Detach receives nothing from the endpoint until Resume. It completes s, and returns the socket.
	Detach(s *SavedSession) (file int)
	Resume()
}

// hostTime bounds the wait for host lookups of sessions that are to be handed over. They take less.
const hostTime = 100 * time.Millisecond

// HandOver has the socket stop receiving, and passes its sessions to give, some at a time, but for those that wait for
// an endpoint. After an error the socket goes on, with those that were not taken.
func (t *Sessions) HandOver(ctx context.Context, give Give) error {
	return t.handOver(ctx, give, false)
}

// HandOverAll does the same with all.
func (t *Sessions) HandOverAll(ctx context.Context, give Give) error {
	return t.handOver(ctx, give, true)
}

func (t *Sessions) handOver(ctx context.Context, give Give, waiting bool) error {
	for until := time.Now().Add(hostTime); ; time.Sleep(time.Millisecond) {
		some, lookingUp := t.pause(departing, waiting)
		if err := passOn(some, give); err != nil {
			t.Resume()
			return err
		}
		if len(some) == 0 && (!lookingUp || time.Now().After(until)) {
			return nil
		}
		if ctx.Err() != nil {
			t.Resume()
			return context.Cause(ctx)
		}
	}
}

// Resume has the socket receive again. All sessions may be handed over later.
func (t *Sessions) Resume() {
	t.do(func() {
		t.socket.(SessionMover).Resume()
		for _, s := range t.attached {
			s.stays = false
		}
	})
}

// pause stops receiving, and takes at most n sessions from the engine. lookingUp: some wait for a host lookup.
func (t *Sessions) pause(n int, waiting bool) (some []*Departure, lookingUp bool) {
	t.do(func() {
		if t.closed {
			return
		}
		t.socket.(SessionMover).Pause()
		all := &t.lists
		for _, list := range []*sessionList{&all.awaitingReply, &all.answered, &all.detachedAwaitingReply, &all.detached} {
			for s := list.first; s != nil && len(some) < n; s = s.links[ofSocket].next {
				switch {
				case s.departing, s.stays, s.waiter().waits() && !waiting:
				case s.life.dial.lookupPending():
					lookingUp = true
				default:
					some = append(some, s.passage().departs())
				}
			}
		}
	})
	return some, lookingUp
}

// do calls f on the goroutine that owns the sessions, and waits for it, unless the engine has ended.
func (t *Sessions) do(f func()) {
	done := make(chan struct{})
	if t.socket.Do(func() { defer close(done); f() }) {
		<-done
	}
}

// sessionPassage is a session that a predecessor passes on.
type sessionPassage struct{ *Session }

func (s *Session) passage() sessionPassage { return sessionPassage{s} }

func (s sessionPassage) departs() *Departure {
	s.departing = true
	saved := &SavedSession{
		SavedLife: s.life.save(), Local: s.key.Local, Waiting: s.awaitingReply, Detached: s.detached, Until: s.until,
		Unanswered: s.unanswered, Carried: s.life.entry.traffic.save(),
	}
	files := []int{s.conn.(MovingSession).Detach(saved)}
	if saved.Waits {
		files = nil
		if len(s.buffered) > 0 {
			saved.Unanswered = s.buffered[0]
		}
	}
	return &Departure{
		Session: saved, Files: files,
		resume: func() {
			s.table.socket.Do(func() {
				if s.departing = false; !s.over {
					s.conn.(MovingSession).Resume()
					s.waiter().redial()
				}
			})
		},
		leave: func() { s.table.socket.Do(s.left) },
		stay:  func() { s.table.socket.Do(func() { s.stays = true }) },
	}
}

// left ends a session here without a report: a successor has it.
func (s sessionPassage) left() {
	if s.over {
		return
	}
	s.over = true
	s.life.queue.leave(&s.life.entry, s.table.core().Now())
	s.life.dial.current.lease.ended(s.life.entry.clientAddr(), nil, -1)
	s.conn.Close()
	s.remove()
}

// Restore begins a session that a predecessor saved, in place. It is called in place of Open.
func (t *Sessions) Restore(s *Session, conn SessionConn, saved *SavedSession) {
	s.table, s.conn, s.key = t, conn, SessionKey{Client: saved.Client, Local: saved.Local}
	s.awaitingReply, s.detached, s.until, s.unanswered = saved.Waiting, saved.Detached, saved.Until, saved.Unanswered
	s.life.restore(t.front, &saved.SavedLife)
	s.life.entry.cameBy = saved.Interface
	s.life.entry.traffic.restore(saved.Carried)
	s.client = t.room().client(s.life.entry.clientAddr())
	core := t.core()
	s.client.quota.TakeSessionAnyway()
	core.counts.sessions.Add(1)
	core.Registry.add(sessionMember{s})
	if s.detached {
		s.life.admission.uncount(&s.life.entry)
	} else {
		t.attached[s.key] = s
	}
	s.enlist()
	now := core.Now()
	if saved.Waits {
		if saved.Unanswered != nil {
			s.buffered.add(saved.Unanswered, s.client.quota)
		}
		s.waiter().findEndpoint(now)
	} else if e := t.front.present().endpoint(s.target()); !s.detached && (e == nil || !e.Ready && !e.Serving) {
		s.detach(now) // the endpoint has left meanwhile
	}
	t.Sweep(now)
}

// SessionsAt returns the sessions of the front's socket at an address; nil: there is no such UDP socket.
func SessionsAt(f *Front, at netip.AddrPort) *Sessions {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sessionsOf(f.sockets[at])
}

// sessionsOf returns the sessions of a socket; nil: it is not a UDP socket, or there is none.
func sessionsOf(s Socket) *Sessions {
	if s == nil {
		return nil
	}
	sessions, _ := s.Sessions().(*Sessions)
	return sessions
}
