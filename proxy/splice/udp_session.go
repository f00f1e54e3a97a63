package splice

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// SessionConn is an engine's session: the socket to the endpoint, with a Session embedded. Whoever owns the Sessions
// owns it.
type SessionConn interface {
	// Dial makes a socket that sends to one endpoint and receives from it alone, and sends first on it unless that is
	// nil. The endpoint sees the client's address if as is valid. It returns our own address and port, or an error,
	// after which nothing is open, and what this host lacked.
	Dial(endpoint netip.AddrPort, as netip.Addr, first []byte) (proxy netip.AddrPort, lack Shortage, err error)
	// Forward sends a datagram of the client, as the engine does with one that has just come.
	Forward(data []byte)
	// Close closes the socket, if there is one. Nothing is received from then on.
	Close()
}

// Session is a UDP session: a client's address and port, and the endpoint that it was assigned. An engine embeds it by
// value, together with the socket to the endpoint, and opens it with Sessions.Open.
//
// For a datagram of the client the engine calls Received, and then forwards it: unless Buffer keeps it, it is sent, and
// one of Sent, Dropped and Refused called. For what comes from the endpoint it calls Replied or Refused.
type Session struct {
	life          life
	table         *Sessions
	conn          SessionConn
	key           SessionKey
	client        *sessionClient
	over          bool
	awaitingReply bool          // its last datagram was the client's
	detached      bool          // its client's next datagram is another session's
	departing     bool          // it is being handed over
	stays         bool          // the hand-over under way cannot pass it on
	until         time.Duration // when a detached session ends
	links         [2]sessionLinks
	unanswered    []byte    // the first datagram, until anything came back: another endpoint may get it
	buffered      datagrams // what the client sent during a host lookup, or last during a wait for an endpoint
}

// maxUnanswered is the size in bytes up to which a session keeps its first datagram for another endpoint.
const maxUnanswered = 4096

// maxBuffered bounds the datagrams that a session keeps during a host lookup. A DNS resolver sends two queries at once.
const maxBuffered = 8

// detachedTime bounds how long a detached session passes on answers of an endpoint that was removed.
const detachedTime = 3 * time.Second

// Over tells whether the session has ended.
func (s *Session) Over() bool { return s.over }

// admit finds an endpoint for a client that may have one. The outcome is empty when it was found or is waited for, or
// a host lookup is pending.
func (s *Session) admit(iface int) record.Outcome {
	t := s.table
	dst, known := t.originalDst(s.key, s.life.entry.plan)
	if s.life.entry.isOwn(s.key.Client) {
		s.life.entry.dst = dst
		return record.OutcomeNotPortal
	}
	if !known {
		return record.OutcomeResources
	}
	if o := s.life.admission.admit(&s.life.entry, dst); o != "" {
		return o
	}
	s.life.entry.cameBy = uint32(iface)
	o := record.OutcomeResources
	s.client = t.room().client(s.life.entry.clientAddr())
	if t.room().makeRoom(s.client) {
		s.life.entry.started()
		if o = s.advance(s.life.dial.start(&s.life.entry, iface, t.core().Now())); o == "" {
			return ""
		}
		s.client.quota.GiveSession()
	}
	t.room().releaseClient(s.client)
	s.life.admission.uncount(&s.life.entry)
	return o
}

// advance takes the steps that come next. The outcome is empty when an endpoint was reached or is waited for, or a host
// lookup is pending.
func (s *Session) advance(next step) record.Outcome {
	for next.kind == stepDial {
		proxy, lack, err := s.conn.Dial(next.endpoint, next.as, s.lost())
		now := s.table.core().Now()
		if err == nil {
			s.life.dial.attempt().Proxy = proxy
			s.life.connected(now)
			return ""
		}
		next = s.life.dial.failed(&s.life.entry, err, lack, now)
	}
	switch next.kind {
	case stepLookup:
		s.lookUp(next.lookup)
		return ""
	case stepQueue:
		s.waiter().await(next.until)
		return ""
	}
	return next.outcome
}

// lost is the first datagram if it was sent to an endpoint that turned out to be gone, else nil.
func (s *Session) lost() []byte {
	if s.life.result.connect < 0 {
		return nil
	}
	return s.unanswered
}

// lookUp has a lookup done at the host. Datagrams of the client are buffered meanwhile.
func (s *Session) lookUp(lookup func() bool) {
	t := s.table
	t.core().lookups.add(func() {
		yes := lookup()
		t.socket.Do(func() { s.lookedUp(yes) })
	})
}

// lookedUp goes on with the result of a host lookup, and with the datagrams that were buffered meanwhile.
func (s *Session) lookedUp(yes bool) {
	if s.over {
		return
	}
	if o := s.advance(s.life.dial.lookedUp(&s.life.entry, yes, s.table.core().Now())); o != "" {
		s.end(record.Proxy, record.Reset, o)
		return
	}
	s.forwardBuffered()
}

// forwardBuffered sends what was buffered, if there is an endpoint now.
func (s *Session) forwardBuffered() {
	if s.waiter().waits() {
		return
	}
	for _, data := range s.buffered.take(s.client.quota) {
		if s.over {
			s.table.socket.Deliver(data, s.conn)
		} else {
			s.conn.Forward(data) // which buffers it again if there is another host lookup
		}
	}
}

// target is the endpoint that the session has, or is about to be connected to.
func (s *Session) target() netip.AddrPort {
	if s.life.dial.dialing {
		return s.life.dial.attempt().Endpoint
	}
	if e := s.life.entry.endpoint.Load(); e != nil {
		return e.Addr
	}
	return netip.AddrPort{}
}

// Received counts a datagram of the client.
func (s *Session) Received(data []byte, now time.Duration) {
	s.life.entry.traffic.FromClient.Add(int64(len(data)))
	s.touch(true, now)
	if s.life.entry.firstReply() < 0 && s.unanswered == nil && len(data) <= maxUnanswered {
		s.unanswered = bytes.Clone(data)
	}
}

// Buffer keeps a datagram of the client until the session has an endpoint. False: it has one, the datagram is to be
// sent.
func (s *Session) Buffer(data []byte) bool {
	switch {
	case s.waiter().waits():
		s.waiter().bufferLast(data)
	case !s.life.dial.lookupPending():
		return false
	case len(s.buffered) == maxBuffered || !s.buffered.add(bytes.Clone(data), s.client.quota):
		s.Dropped()
	}
	return true
}

// Sent counts a datagram of so many bytes that the kernel took for the endpoint.
func (s *Session) Sent(n int) { s.life.entry.traffic.ToEndpoint.Add(int64(n)) }

// Dropped counts a datagram that the kernel did not take: a full queue, one too large, no route.
func (s *Session) Dropped() { s.table.core().shortages.udpDropped.Add(1) }

// Replied counts datagrams of the endpoint, of so many bytes together, that were sent to the client, or are about to
// be.
func (s *Session) Replied(n int64, now time.Duration) {
	s.life.entry.traffic.FromEndpoint.Add(n)
	s.life.entry.traffic.ToClient.Add(n) // or lost on the way, as datagrams may be
	if s.life.entry.firstReply() < 0 {
		s.life.firstByte(s.table.core().Now())
		s.unanswered = nil
	}
	s.touch(false, now)
}

// Refused reports that the endpoint's port is closed, or the endpoint cannot be reached. unsent is the datagram of the
// client whose send returned that error, nil if it came from a receive. A session that never had an answer moves to
// another endpoint. Any other ends, and unsent begins the client's next session.
func (s *Session) Refused(err error, unsent []byte) {
	var again []byte // the first datagram of a detached session that had no answer
	if s.detached {
		again = s.unanswered
	}
	if s.moved(err) {
		if unsent != nil {
			s.conn.Forward(unsent)
		}
		return
	}
	for _, data := range [][]byte{again, unsent} {
		if data != nil {
			s.table.socket.Deliver(data, s.conn)
		}
	}
}

// moved moves the session to another endpoint. False: it has ended instead.
func (s *Session) moved(err error) bool {
	switch {
	case s.detached:
		s.end(record.Proxy, record.Reset, record.OutcomeEndpointRemoved)
	case s.unanswered == nil:
		s.endAs(ending{record.Endpoint, record.Reset, record.OutcomeEndpointReset, err})
	default:
		s.conn.Close()
		o := s.advance(s.life.dial.failed(&s.life.entry, err, Enough, s.table.core().Now()))
		if o == "" {
			return true
		}
		s.end(record.Endpoint, record.Reset, o)
	}
	return false
}

// touch makes the session the most recently used of the sessions that wait for their endpoint, or of the others.
func (s *Session) touch(awaitingReply bool, now time.Duration) {
	if awaitingReply {
		s.life.entry.clientMovedAt(now)
	} else {
		s.life.entry.movedAt(now)
	}
	if s.detached && s.awaitingReply == awaitingReply {
		return // use does not prolong it
	}
	s.delist()
	s.awaitingReply = awaitingReply
	s.enlist()
}

// enlist puts the session last in its lists, of the socket and of the client.
func (s *Session) enlist() {
	s.table.lists.of(s).append(s)
	s.client.lists.of(s).append(s)
}

func (s *Session) delist() {
	s.table.lists.of(s).remove(s)
	s.client.lists.of(s).remove(s)
}

// detach lets the client's next datagram begin another session. This one still passes on answers of its endpoint.
func (s *Session) detach(now time.Duration) {
	s.depart()
	s.detached, s.until = true, now+detachedTime
	s.enlist()
}

// depart removes the session from its client, as end and detach do.
func (s *Session) depart() {
	delete(s.table.attached, s.key)
	s.delist()
	s.life.admission.uncount(&s.life.entry)
}

// sessionMember is a session as a member of the registry.
type sessionMember struct{ *Session }

func (m sessionMember) common() *entry { return &m.life.entry }

func (m sessionMember) live() record.Live { return m.life.entry.live() }

func (m sessionMember) cutSoon() {
	s := m.Session
	s.table.socket.Do(func() { s.end(record.Proxy, record.Reset, record.OutcomeCut) })
}

func (m sessionMember) countSoon() {
	m.table.socket.Do(func() { m.life.admission.countClient(&m.life.entry) })
}

// end closes a session that was opened.
func (s *Session) end(by record.Side, closeType record.CloseType, o record.Outcome) {
	s.endAs(ending{by, closeType, o, nil})
}

func (s *Session) endAs(how ending) {
	if s.over {
		return
	}
	s.over = true
	s.conn.Close()
	s.remove()
	s.life.result.conclude(how)
	s.life.report(s.table.core().Now(), nil)
}

// remove takes a session that is over from all that knows it.
func (s *Session) remove() {
	if s.detached {
		s.delist()
	} else {
		s.depart()
	}
	t := s.table
	s.buffered.take(s.client.quota)
	s.client.quota.GiveSession()
	t.room().releaseClient(s.client)
	t.core().counts.sessions.Add(-1)
	t.core().Registry.remove(sessionMember{s})
}

// datagrams are some of a client that wait for an endpoint, in memory that its account has given.
type datagrams [][]byte

// add keeps one more. False: the account has no memory left for it.
func (all *datagrams) add(data []byte, client *quota.Client) bool {
	if !client.Take(quota.ClientBytes, int64(len(data))) {
		return false
	}
	*all = append(*all, data)
	return true
}

// take returns those that were kept, which are not kept any more.
func (all *datagrams) take(client *quota.Client) [][]byte {
	kept := *all
	*all = nil
	for _, data := range kept {
		client.Give(quota.ClientBytes, int64(len(data)))
	}
	return kept
}
