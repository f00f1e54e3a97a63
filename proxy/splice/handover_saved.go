package splice

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/waitqueue"
)

// The state that a successor needs of a connection or session, beside its sockets. Times are on the clock of the host:
// see Options.Start. Fields are only ever added: a successor of another version takes those that it does not find as
// zero.

// SavedLife has the fields that SavedConn and SavedSession share: most of the record so far.
type SavedLife struct {
	Service             service.PortName
	ID                  uint64
	Since               int64         // by the wall clock: ns since 1970
	Began, Moved        time.Duration // Moved is odd if the client was the last
	Client, OriginalDst netip.AddrPort
	Portal              service.Kind
	Scope               service.Scope
	Who                 *service.Workload
	Endpoint            service.Endpoint
	Attempts            []record.Attempt // the last one worked
	Affinity            string
	Connect, FirstReply time.Duration // since Began; negative: never
	Waits               bool          // for an endpoint: it has none
	WaitsSince          time.Duration // if it does
	Waited              time.Duration // else
}

// SavedConn is an established TCP connection, or one that waits for an endpoint. That one has the socket to the client
// alone. An established one has the sockets to the client and to the endpoint, and then the two
// ends of the pipe of Up and of Down, of those whose InPipe is positive: first the one that is read.
type SavedConn struct {
	SavedLife
	ClientEOF, EndpointEOF bool
	Up, Down               SavedFlow // client to endpoint, endpoint to client
	ToClient, ToEndpoint   SavedSocket
	Relays                 uint8  // as the engine counts them
	Replays                uint8  // so far; what the client of an established one has sent stays behind: no more
	Sent                   []byte // by the client of one that waits, for the endpoint that it finds
	Removed                *SavedRemoval
	Broken                 *SavedBreak `cbor:"-"` // nobody passes it on: who restores it after a crash finds out
}

// SavedBreak is the failure of one side of a connection.
type SavedBreak struct {
	Side  record.Side
	Errno syscall.Errno
}

// SavedRemoval tells that the endpoint of a connection was removed; nil: it is there.
type SavedRemoval struct {
	At time.Duration           // when it was noticed
	Do service.RemovedEndpoint // what the connection's policy says
}

// Files is how many descriptors belong to it.
func (s *SavedConn) Files() int {
	if s.Waits {
		return 1
	}
	n := 2
	for _, f := range []*SavedFlow{&s.Up, &s.Down} {
		if f.InPipe > 0 {
			n += 2
		}
	}
	return n
}

// SavedFlow is one direction of a connection.
type SavedFlow struct {
	Carried, Passed int64  // read, and of these passed on; negative: so much of a PROXY header is left too
	FIN, EOF        bool   // the source's FIN was read; and passed on
	Large, Small    uint8  // as the engine counts them
	Rest            []byte // read and not passed on
	Urgent          bool   // Rest is urgent data
	InPipe          int    // bytes in its pipe, which come before Rest

	// By the kernel's counts, at the same moment as Carried and Passed: what was read of the source, and written to the
	// destination. They are for Kept.
	Received, Sent int64
	Unknown        bool // the kernel does not tell
}

// SavedSocket has the state of a socket that the kernel does not tell.
type SavedSocket struct {
	Urgent  bool // it has sent an urgent byte
	Full    bool // its peer does not take bytes at this moment
	Blocked time.Duration
}

// SavedSession is a UDP session. It has the socket to the endpoint, unless it waits for one.
type SavedSession struct {
	SavedLife
	Local             netip.Addr // that the client writes to
	Interface         uint32     // that the client came in by
	Zone              uint32     // of the client's address, if that is link-local
	Waiting, Detached bool
	Until             time.Duration // of a detached one
	Unanswered        []byte        // of one that waits, the last datagram
	Carried           SavedTraffic
}

// SavedTraffic is a Traffic.
type SavedTraffic struct{ FromClient, ToEndpoint, FromEndpoint, ToClient int64 }

func (t *Traffic) save() SavedTraffic {
	return SavedTraffic{t.FromClient.Load(), t.ToEndpoint.Load(), t.FromEndpoint.Load(), t.ToClient.Load()}
}

func (t *Traffic) restore(s SavedTraffic) {
	t.FromClient.Store(s.FromClient)
	t.ToEndpoint.Store(s.ToEndpoint)
	t.FromEndpoint.Store(s.FromEndpoint)
	t.ToClient.Store(s.ToClient)
}

// Kept is an established connection that goes on, and that somebody keeps for a successor: after a crash, what has
// happened since is known by the kernel and by what the engine notes in a slot of memory that is shared.
type Kept struct {
	Slot  uint32
	State *SavedConn
	Files []int // duplicates of both sockets, the receiver's
}

// save is called by the owner.
func (l *life) save() SavedLife {
	e, d := &l.entry, &l.dial
	s := SavedLife{
		Service: e.front.name, ID: e.id, Since: e.since, Began: e.began, Moved: time.Duration(e.last.Load()),
		Client: e.client, OriginalDst: e.dst, Portal: e.portal, Scope: e.scope, Who: e.who,
		Attempts: d.attempts, Affinity: d.affinity, Connect: l.result.connect, FirstReply: e.firstReply(),
		Waits: l.queue.waits(), Waited: l.queue.waited(),
	}
	if s.Waits {
		s.WaitsSince = l.queue.wait.place.Since
	}
	if at := e.endpoint.Load(); at != nil {
		s.Endpoint = *at
	}
	return s
}

// restore begins a life that a predecessor saved, in place, as part of a front.
func (l *life) restore(front *Front, s *SavedLife) {
	e, d := &l.entry, &l.dial
	e.front, e.plan = front, front.present()
	d.seen = e.plan
	e.id, e.since, e.began, e.client, e.dst = s.ID, s.Since, s.Began, s.Client, s.OriginalDst
	e.last.Store(int64(s.Moved))
	e.portal, e.scope, e.who, d.affinity = s.Portal, s.Scope, s.Who, s.Affinity
	l.result.connect, d.attempts = s.Connect, s.Attempts
	e.reply.Store(int64(s.FirstReply))
	if s.Waits || s.Waited > 0 {
		l.queue.wait = &wait{place: waitqueue.Place{Since: s.WaitsSince}, took: s.Waited}
	}
	l.admission.counted = true
	front.active.Add(1)
	l.admission.countClient(e)
	if s.Waits {
		return
	}
	e.stage.enter(open)
	for range s.Attempts {
		e.stage.dial()
	}
	if n := len(s.Attempts); n > 0 {
		e.won.Store(&d.attempts[n-1])
	}
	if s.Endpoint.Addr.IsValid() {
		e.endpoint.Store(&s.Endpoint)
		d.current.lease = lease{front.pickers[s.Scope].Join(s.Endpoint.Addr)}
	}
}
