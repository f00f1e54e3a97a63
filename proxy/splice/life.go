package splice

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// life is what a TCP connection and a UDP session have in common: it is admitted, dials one endpoint after the other
// until one is reached, and ends with one Record. It is embedded by value and begun in place, so that it costs no
// allocation of its own. One goroutine at a time owns it; now is the time on the engine's clock.
//
// It makes decisions and no system calls: each step that it returns is what its owner has to do next.
type life struct {
	front   *Front
	plan    *plan
	scope   service.Scope // which endpoints are for the client
	counted bool          // among the live ones of the front
	placed  bool          // and among those of its client
	rounds  bool          // when all endpoints have failed they are dialled again after a pause
	dialing bool          // the last attempt has no result yet
	removed bool          // the endpoint of that attempt was taken away meanwhile
	again   bool          // the endpoint of that attempt is the client's own, and may be dialled once more
	lone    bool          // no other endpoint is to be dialled beside that attempt
	paid    bool          // that attempt was taken out of the budget
	dial    Dial          // which of the dials under way that attempt is
	ejected uint16        // endpoints that were left out of the choice of that attempt
	asked   question      // that the host has not answered yet
	portal  service.Kind  // of dst
	lease   lease         // of the current attempt, and then of the connection
	retry   *retries      // nil: no dial has failed
	rival   *rival        // the attempt that goes on beside the current one; nil: there is none
	wait    *wait         // nil: it has not waited for an endpoint
	seen    *plan         // the newest plan when dials last began: a newer one may bring endpoints
	began   time.Duration
	dialled time.Duration // when the current attempt began
	index   uint32        // in its shard of the registry, guarded by that
	cameBy  uint32        // of a session: the index of the interface that its client's datagram came in by; 0: not known

	// What Live shows of it: its owner writes that, and any goroutine reads it.
	stage   stage
	last    atomic.Int64                   // when bytes last moved, by the engine's clock; lowest bit: the client's
	won     atomic.Pointer[record.Attempt] // the attempt that worked, which is not changed any more; nil: none did
	traffic Traffic

	// What the record tells. It is made at the end only: it is larger, and an idle connection should be small.
	id          uint64
	since       int64 // when it began, by the wall clock: ns since 1970
	client, dst netip.AddrPort
	who         *service.Workload                // of the client; nil: not known
	endpoint    atomic.Pointer[service.Endpoint] // nil: none was reached
	attempts    attempts
	attempt     [1]record.Attempt // room for the usual single one
	affinity    string
	connect     time.Duration
	firstReply  time.Duration
	broken      error
	rec         *record.Record // nil until it is decided how it ends
}

// step is what comes next for a connection or session.
type step struct {
	kind     stepKind
	outcome  record.Outcome // of stepRefuse
	endpoint netip.AddrPort // of stepDial
	as       netip.Addr     // of stepDial: the client's address if the endpoint is to see it, else zero
	ask      func() bool    // of stepAsk
	until    time.Duration  // of stepWait and stepHold
}

type stepKind uint8

const (
	stepDial   stepKind = iota // connect to the endpoint, then call connected or failed
	stepAsk                    // put the question, which may block, on another goroutine, then call answered
	stepWait                   // call next at that time, or as soon as the front has other endpoints
	stepGoOn                   // the other dial is still under way
	stepHold                   // the same, in the queue of the Service
	stepRefuse                 // end with that outcome
)

// begin starts the life of a client's connection or session, by the present plan of the front.
func (f *life) begin(front *Front, client netip.AddrPort, now time.Duration) {
	f.front, f.plan, f.began = front, front.present(), now
	f.seen = f.plan
	f.movedAt(now)
	f.id, f.since, f.client = front.core.nextID.Add(1), front.core.wall(now), client
	f.connect, f.firstReply, f.attempts = -1, -1, f.attempt[:0]
	if w, known := front.core.opts.WhoIs(client.Addr()); known {
		f.who = &w
	}
}

// startTime is when it began, by the wall clock.
func (f *life) startTime() time.Time { return time.Unix(0, f.since) }

func (f *life) clientAddr() netip.Addr { return f.client.Addr() }

// movedAt notes that bytes have moved. Any goroutine may call it.
func (f *life) movedAt(now time.Duration) { f.last.Store(int64(now) &^ 1) }

// askedAt is movedAt of bytes of the client: it may wait for an answer from now on.
func (f *life) askedAt(now time.Duration) { f.last.Store(int64(now) | 1) }

// clientLast tells whether the last bytes were the client's.
func (f *life) clientLast() bool { return f.last.Load()&1 != 0 }

// lastMoved is when they did, on the engine's clock.
func (f *life) lastMoved() time.Duration { return time.Duration(f.last.Load() &^ 1) }

// firstByte notes that the endpoint has sent something.
func (f *life) firstByte(now time.Duration) {
	f.firstReply = now - f.began
	f.lease.answered()
}

// conclude begins the record: it is decided how the life ends. It is called once.
func (f *life) conclude(by record.Side, closeType record.CloseType, o record.Outcome) {
	f.rec = &record.Record{CarriedBy: record.Userspace, ClosedBy: by, CloseType: closeType, Outcome: o}
}

// report completes the record and hands it to the observer. It is called once, after all else.
func (f *life) report(now time.Duration) {
	f.unqueue(now)
	if f.dialing {
		f.dialing = false
		f.lease.dialled(context.Canceled, now-f.dialled)
		f.attempted(*f.current(), errGivenUp.Error(), now-f.dialled)
		f.attempts.failed(errGivenUp.Error(), now-f.dialled)
	}
	r, t := f.rec, &f.traffic
	r.ID, r.Start, r.Service = f.id, f.startTime(), f.front.name
	r.Client, r.OriginalDst, r.Portal = f.client, f.dst, f.portal
	if f.who != nil {
		r.ClientPod, r.ClientNode, r.ClientZone = f.who.Pod, f.who.Node, f.who.Zone
	}
	r.Attempts, r.Affinity = slices.Clone(f.attempts), f.affinity
	r.Connect, r.FirstByte, r.Duration = f.connect, f.firstReply, now-f.began
	r.Ejected = int(f.ejected)
	r.Waited = f.waited()
	r.Endpoint, r.Logging = f.reached(), f.front.present().policy.Logging
	if f.broken != nil {
		r.Error = f.broken.Error()
		errors.As(f.broken, &r.Errno)
	}
	r.BytesFromClient, r.BytesToEndpoint = t.FromClient.Load(), t.ToEndpoint.Load()
	r.BytesFromEndpoint, r.BytesToClient = t.FromEndpoint.Load(), t.ToClient.Load()
	if f.lease.ended(f.clientAddr(), f.brokenByEndpoint(), f.answeredAfter()) {
		r.Attempts[len(r.Attempts)-1].Ejected = true
	}
	f.observe()
}

// brokenByEndpoint is why, if the endpoint broke the connection or session.
func (f *life) brokenByEndpoint() error {
	if f.rec.ClosedBy != record.Endpoint || f.rec.CloseType == record.FIN {
		return nil
	}
	if f.broken == nil {
		return errNoAnswer
	}
	return f.broken
}

// answeredAfter is how long after the connect the endpoint's first byte came; negative: none came.
func (f *life) answeredAfter() time.Duration {
	if f.firstReply < 0 {
		return -1
	}
	return max(f.firstReply-f.connect, 0)
}

// reached describes the endpoint, zero when none was reached. Its address alone may have been known when it was: the
// balancer learns of a new endpoint just before the plan does. Any goroutine may call it.
func (f *life) reached() service.Endpoint {
	e := f.endpoint.Load()
	if e == nil {
		return service.Endpoint{}
	}
	if *e == (service.Endpoint{Addr: e.Addr}) {
		if named := f.front.present().endpoint(e.Addr); named != nil {
			return *named
		}
	}
	return *e
}
