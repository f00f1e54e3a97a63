package splice

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice/crash"
)

// life is the part that a TCP connection and a UDP session share: it is admitted, dials one endpoint after the other
// until one is reached, perhaps waits for one, and ends with one Record. Each part has a state of its own, and is told
// the entry when it needs it. A life is begun in place, so that it costs no allocation. One goroutine at a time owns
// it; now is the time on the engine's clock.
//
// It makes decisions and no system calls: its owner has to do each step that it returns.
type life struct {
	entry     entry
	admission admission
	dial      dialler
	queue     queuePlace
	result    result
}

// result is the part of the record about the endpoint that was reached, and about the end. The record is made at the
// end only: it is larger, and an idle connection should be small.
type result struct {
	connect time.Duration  // since it began; negative: never
	suspect *crash.Suspect // its endpoint closed it in mid-exchange; nil: it did not
	ended   *ended         // nil until it is decided how it ends
}

// ended is the record, and why it ends.
type ended struct {
	record.Record
	broken error
}

// ending tells how a connection or session ends, or would have. The error is the kernel's for the side that broke it.
type ending struct {
	by        record.Side
	closeType record.CloseType
	outcome   record.Outcome
	broken    error
}

// begin starts the life of a client's connection or session, by the present plan of the front.
func (l *life) begin(front *Front, client netip.AddrPort, now time.Duration) {
	l.entry.front, l.entry.plan, l.entry.began = front, front.present(), now
	l.dial.seen = l.entry.plan
	l.entry.movedAt(now)
	l.entry.id, l.entry.since, l.entry.client = front.core.nextID.Add(1), front.core.wall(now), client
	l.result.connect, l.dial.attempts = -1, l.dial.first[:0]
	l.entry.reply.Store(-1)
	if w, known := front.core.opts.WhoIs(client.Addr()); known {
		l.entry.who = &w
	}
}

// connected ends the attempt under way: its endpoint is reached.
func (l *life) connected(now time.Duration) {
	l.dial.connected(&l.entry, now)
	l.result.connect = now - l.entry.began
	l.queue.leave(&l.entry, now)
}

// firstByte notes that the endpoint has sent something.
func (l *life) firstByte(now time.Duration) {
	l.entry.reply.Store(int64(now - l.entry.began))
	l.dial.current.lease.answered()
}

// quietTime is how long no byte of a connection has moved, the endpoint's at last, when the client has its answer.
const quietTime = 500 * time.Millisecond

// closedFirst notes that the endpoint has closed its stream, and the client has not: in mid-exchange it may be a crash.
func (l *life) closedFirst(now time.Duration) {
	e := &l.entry
	if unanswered := e.clientLast(); unanswered || now-e.lastMoved() < quietTime {
		at := e.endpoint.Load().Addr
		owner := &closed{front: e.front, endpoint: at, state: l.dial.current.lease.state}
		l.result.suspect = e.front.core.crashes.Closed(at, now, unanswered, owner)
	}
}

// closed is a connection that its endpoint has closed.
type closed struct {
	front    *Front
	endpoint netip.AddrPort
	state    State
	kept     *payload.Kept // nil: no payload is
}

// Report implements crash.Owner. An endpoint that terminates or is gone may end as it likes.
func (c *closed) Report(r *record.Record, crashed bool) {
	if e := c.front.present().endpoint(c.endpoint); crashed && e != nil && e.Ready {
		r.Outcome = record.OutcomeClosedEarly
		if c.state != nil && c.state.ClosedEarly() {
			r.Attempts[len(r.Attempts)-1].Ejected = true
		}
	}
	if c.kept != nil {
		c.front.core.Payload.Decide(r, c.kept)
	}
	observe(c.front, r)
}

// conclude begins the record: it is decided how the life ends. It is called once.
func (r *result) conclude(how ending) {
	r.ended = &ended{broken: how.broken, Record: record.Record{
		CarriedBy: record.Userspace, ClosedBy: how.by, CloseType: how.closeType, Outcome: how.outcome,
	}}
}

// report completes the record and hands it to the observer, with the payload that was kept; nil: none was. It is called
// once, after all else.
func (l *life) report(now time.Duration, kept *payload.Kept) {
	l.queue.leave(&l.entry, now)
	if l.dial.dialing {
		l.dial.dialing = false
		l.dial.current.lease.dialled(context.Canceled, now-l.dial.current.began)
		l.entry.attempted(*l.dial.attempt(), errGivenUp.Error(), now-l.dial.current.began)
		l.dial.attempts.failed(errGivenUp.Error(), now-l.dial.current.began)
	}
	r, t := l.result.ended, &l.entry.traffic
	r.ID, r.Start, r.Service = l.entry.id, l.entry.startTime(), l.entry.front.name
	r.Client, r.OriginalDst, r.Portal = l.entry.client, l.entry.dst, l.entry.portal
	if l.entry.who != nil {
		r.ClientPod, r.ClientNode, r.ClientZone = l.entry.who.Pod, l.entry.who.Node, l.entry.who.Zone
	}
	r.Attempts, r.Affinity = slices.Clone(l.dial.attempts), l.dial.affinity
	r.Connect, r.FirstByte, r.Duration = l.result.connect, l.entry.firstReply(), now-l.entry.began
	r.Ejected = int(l.dial.ejected)
	r.Waited = l.queue.waited()
	r.Endpoint, r.Logging = l.entry.reached(), l.entry.front.present().policy.Logging
	if r.broken != nil {
		r.Error = r.broken.Error()
		errors.As(r.broken, &r.Errno)
	}
	r.BytesFromClient, r.BytesToEndpoint = t.FromClient.Load(), t.ToEndpoint.Load()
	r.BytesFromEndpoint, r.BytesToClient = t.FromEndpoint.Load(), t.ToClient.Load()
	if l.dial.current.lease.ended(l.entry.clientAddr(), l.result.brokenByEndpoint(), l.answeredAfter()) {
		r.Attempts[len(r.Attempts)-1].Ejected = true
	}
	core := l.entry.front.core
	if s := l.result.suspect; s != nil && r.Outcome == record.OutcomeOK {
		if kept != nil && core.Payload.Await(kept) {
			s.Owner().(*closed).kept = kept
		}
		core.crashes.Ended(s, &r.Record)
		return
	}
	if kept != nil {
		core.Payload.Add(&r.Record, kept)
	}
	observe(l.entry.front, &r.Record)
}

// brokenByEndpoint is why, if the endpoint broke the connection or session.
func (r *result) brokenByEndpoint() error {
	if r.ended.ClosedBy != record.Endpoint || r.ended.CloseType == record.FIN {
		return nil
	}
	if r.ended.broken == nil {
		return errNoAnswer
	}
	return r.ended.broken
}

// answeredAfter is how long after the connect the endpoint's first byte came; negative: none came.
func (l *life) answeredAfter() time.Duration {
	first := l.entry.firstReply()
	if first < 0 {
		return -1
	}
	return max(first-l.result.connect, 0)
}
