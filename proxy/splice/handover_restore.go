package splice

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// Mover is an Engine that can pass on what it carries.
type Mover interface {
	// Restore goes on with a connection of a predecessor, for a front. The sockets are the engine's from now on.
	Restore(f *Front, s *SavedConn, files []int)
	// Stand does the same with an established one, of which no byte moves until Resume.
	Stand(f *Front, s *SavedConn, files []int) Standing
	// Settle calls Done of what it adds to wg when everything is done that was queued before.
	Settle(wg interface {
		Add(int)
		Done()
	})
}

// Standing is a connection of a predecessor that stands still. Keep begins to note what it does, soon, and calls tell,
// which does not block; nil: it cannot.
type Standing struct {
	Conn   *Conn
	Keep   func(tell func(*Kept))
	Resume func()
}

// CanMove tells whether the engine can pass on what it carries.
func (c Moving) CanMove() bool {
	_, ok := c.engine.(Mover)
	return ok
}

// Restorer goes on with what a predecessor carried. One goroutine uses it.
type Restorer struct {
	core    *Core
	find    func(service.PortName, inet.Family) *Front
	orphans map[orphan]*Front

	standing []Standing
}

// orphan is the key of an orphan front: its connections have this in common.
type orphan struct {
	name    service.PortName
	removed service.RemovedEndpoint // where their endpoint was removed: nobody else knows what was to become of them
}

// Restorer returns one that is told of the fronts by find, nil where there is none: connections go on nevertheless.
// Done ends it.
func (c Moving) Restorer(find func(service.PortName, inet.Family) *Front) *Restorer {
	return &Restorer{core: c.Core, find: find, orphans: map[orphan]*Front{}}
}

// Done is called when nothing more comes.
func (r *Restorer) Done() {
	for _, f := range r.orphans {
		f.Close()
	}
	for _, f := range r.core.fronts.all() {
		r.core.removals.note(f)
	}
}

// Conn goes on with a connection of a predecessor. The sockets are the engine's from now on.
func (r *Restorer) Conn(s *SavedConn, files []int) {
	family := inet.FamilyOf(s.OriginalDst.Addr())
	r.core.engine.(Mover).Restore(r.front(s, family), s, files)
}

// Stand does the same with an established one, which moves no byte before KeepStanding.
func (r *Restorer) Stand(s *SavedConn, files []int) {
	family := inet.FamilyOf(s.OriginalDst.Addr())
	r.standing = append(r.standing, r.core.engine.(Mover).Stand(r.front(s, family), s, files))
}

// KeepStanding has the engine note what those do that stand still, and passes all that can be kept to give, which tells
// whether somebody keeps them now. Then they go on.
func (r *Restorer) KeepStanding(give func([]*Kept) bool) {
	type answer struct {
		of   *Conn
		kept *Kept
	}
	answers := make(chan answer, len(r.standing))
	for _, s := range r.standing {
		conn := s.Conn
		if conn.quota.Take(quota.Kept, 1) {
			s.Keep(func(k *Kept) { answers <- answer{conn, Passage{conn}.keptAs(k)} })
		} else {
			answers <- answer{}
		}
	}
	var all []*Kept
	var of []*Conn
	for range r.standing {
		if a := <-answers; a.kept != nil {
			all, of = append(all, a.kept), append(of, a.of)
		}
	}
	kept := give(all)
	for _, s := range r.standing {
		s.Resume()
	}
	for _, conn := range of {
		if !kept {
			conn.owner.Unkept()
			conn.kept.Store(false)
			conn.quota.Give(quota.Kept, 1)
		}
	}
	r.standing = nil
}

// Session goes on with a session that a predecessor had at a socket that was taken over. The socket to the endpoint is
// the engine's from then on. False: nothing listens there.
func (r *Restorer) Session(at netip.AddrPort, s *SavedSession, file int) bool {
	f := r.find(s.Service, inet.FamilyOf(at.Addr()))
	if f == nil {
		return false
	}
	f.mu.Lock()
	socket := f.sockets[at]
	f.mu.Unlock()
	sessions := sessionsOf(socket)
	if sessions == nil {
		return false
	}
	return sessions.socket.Do(func() { sessions.socket.(SessionMover).Restore(s, file) })
}

// front finds the front of a connection, or makes one that serves nothing else: its Service may be gone, or the kernel
// carries it now.
func (r *Restorer) front(s *SavedConn, family inet.Family) *Front {
	name := s.Service
	if f := r.find(name, family); f != nil {
		return f
	}
	of := orphan{name: name}
	if s.Removed != nil {
		of.removed = s.Removed.Do
	}
	f := r.orphans[of]
	if f == nil {
		port := &service.Port{Name: name, Policy: service.Policy{Removed: of.removed}}
		f, _ = r.core.Open(name, Pickers{}, &View{Port: port}) // it opens no socket
		f.orphan = true
		r.orphans[of] = f
	}
	return f
}

// SkipIDs has ids of records begin after a predecessor's.
func (c Moving) SkipIDs(to uint64) {
	for {
		at := c.nextID.Load()
		if at >= to || c.nextID.CompareAndSwap(at, to) {
			return
		}
	}
}

// LastID is the id of the newest record.
func (c Moving) LastID() uint64 { return c.nextID.Load() }

// Restore begins a connection that a predecessor saved, in place. It is called in place of Accept and all that comes
// before Connected; Until of the step is as that one's.
func (c Passage) Restore(f *Front, owner Owner, s *SavedConn) Step {
	c.life.restore(f, &s.SavedLife)
	c.owner, c.life.dial.repeats = owner, true
	c.clientEOF, c.endpointEOF, c.replays = s.ClientEOF, s.EndpointEOF, s.Replays
	if c.HalfClosed() {
		c.life.entry.stage.enter(halfClosed)
	}
	if s.Removed != nil {
		c.restoreRemoval(s)
	}
	c.owner.SetKeepalive(record.Endpoint, c.restoredKeepalive()) // which a predecessor that died may not have set yet
	c.registered(f)
	c.open().payload().begin()
	return Step{Kind: StepCarry, Until: c.Until(f.core.Now())}
}

// RestoreWaiting does the same with one that waits for an endpoint. Redial is called next.
func (c Passage) RestoreWaiting(f *Front, owner Owner, s *SavedConn) {
	c.life.restore(f, &s.SavedLife)
	c.owner, c.life.dial.repeats, c.replays = owner, true, s.Replays
	c.registered(f)
	if len(s.Sent) > 0 {
		c.replay.kept = &kept{sent: s.Sent, again: true, quota: c.quota, retry: &c.life.dial.retry}
		c.quota.TakeAnyway(quota.ClientBytes, int64(cap(s.Sent)))
	}
}

// Redial looks for an endpoint of a connection that RestoreWaiting has begun.
func (c Passage) Redial(now time.Duration) Step {
	c.life.dial.refreshed(&c.life.entry)
	return c.dialing().redial(now)
}

// WaitOn goes on with one that AwaitsEndpoint, and that no successor has taken. Functions posted meanwhile come next.
func (c Passage) WaitOn(now time.Duration) Step {
	until := c.life.entry.waitsUntil()
	if c.life.dial.retry != nil {
		until = min(until, now+lastWaitingRetry)
	}
	return Step{Kind: StepWait, Until: until}
}

// registered takes what the connection has from the account, whatever is left.
func (c Passage) registered(f *Front) {
	core := f.core
	c.quota = f.quota.Client(c.life.entry.clientAddr())
	c.quota.TakeAnyway(quota.Descriptors, 2)
	core.counts.conns.Add(1)
	core.Registry.add(connMember(c))
}

// restoreRemoval notes that the endpoint was removed, unless it is back by now.
func (c Passage) restoreRemoval(s *SavedConn) {
	if !c.life.entry.front.orphan && c.life.entry.front.serves(s.Endpoint) {
		return
	}
	c.goneAt = s.Removed.At
	c.gone.Store(true)
}

// restoredKeepalive is that of the endpoint. Nobody knows the endpoints of an orphan: most likely its Service is gone.
func (c Passage) restoredKeepalive() Keepalive {
	if c.life.entry.front.orphan {
		return KeepaliveFor(removedDeadPeer)
	}
	return KeepaliveFor(c.open().deadPeer())
}
