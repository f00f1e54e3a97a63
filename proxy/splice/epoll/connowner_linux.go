package epoll

import (
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// owner is a connection as the core reaches it, from any goroutine: it implements splice.Owner.
type owner struct{ c *conn }

// do calls f on the goroutine of the loop that owns the connection, soon. Where the loops have ended it calls ended.
func (o owner) do(f, ended func()) {
	l := o.c.at.Load()
	queued := l.do(func() {
		if o.isOf(l) {
			f()
		} else {
			o.do(f, ended)
		}
	})
	if !queued {
		ended()
	}
}

// isOf tells on a loop's goroutine whether that owns the connection: it may have moved to another loop, or be on its
// way.
func (o owner) isOf(l *loop) bool { return o.c.at.Load() == l && o.c.l == l }

// Post implements splice.Owner.
func (o owner) Post(next func(now time.Duration) splice.Step) {
	l := o.c.at.Load()
	l.do(func() {
		if o.isOf(l) {
			o.post(next)
		} else {
			o.Post(next)
		}
	})
}

// post does the step that is next, or keeps it for when a connection that stands still may go on here.
func (o owner) post(next func(now time.Duration) splice.Step) {
	switch c := o.c; c.stage {
	case departed:
		c.standing.posted = append(c.standing.posted, next)
	case closed:
	default:
		c.perform(next(c.l.clock()))
	}
}

// Detach implements splice.Owner.
func (o owner) Detach(tell func(*splice.Departure)) {
	o.do(func() { tell(depart(o.c)) }, func() { tell(nil) })
}

// Keep implements splice.Owner.
func (o owner) Keep(tell func(*splice.Kept)) {
	o.do(func() {
		if o.c.stage == relaying {
			tell(o.keep())
		} else {
			tell(nil)
		}
	}, func() { tell(nil) })
}

// keep begins to note what an established connection does, between two events, or one that stands still. Nil: it cannot
// be now. Bytes of the client that another endpoint may get are worth more to it than that.
func (o owner) keep() *splice.Kept {
	c, r, s := o.c, &o.c.relay, &o.c.l.stock
	if !r.keepable(s) {
		return nil
	}
	state := c.Passage().Saves()
	if !r.positions(state) || c.Replay().KeepsBytes() {
		return nil
	}
	c.Replay().Forget() // it stays with its endpoint
	files, ok := r.keep(s)
	if !ok {
		return nil
	}
	return &splice.Kept{Slot: r.slot, State: state, Files: files}
}

// Unkept implements splice.Owner.
func (o owner) Unkept() {
	o.do(func() {
		if o.c.stage == relaying {
			o.c.relay.guard()
		}
	}, func() {})
}

// Interface implements splice.Owner.
func (o owner) Interface() int {
	return Interface(uintptr(o.c.relay.client.fd), inet.FamilyOf(o.c.Client().Addr()))
}

// TCPInfo implements splice.Owner.
func (o owner) TCPInfo(tell func(client, endpoint record.TCPInfo)) {
	o.do(func() { tell(o.tcpInfo()) }, func() { tell(record.TCPInfo{}, record.TCPInfo{}) })
}

// tcpInfo reads TCP_INFO of both sockets, of the endpoint's once it is connected.
func (o owner) tcpInfo() (client, endpoint record.TCPInfo) {
	if o.c.stage < departed {
		client = TCPInfo(uintptr(o.c.relay.client.fd))
	}
	if o.c.stage == relaying || o.c.stage == delivering {
		endpoint = TCPInfo(uintptr(o.c.relay.endpoint.fd))
	}
	return client, endpoint
}

// SetKeepalive implements splice.Sockets.
func (o owner) SetKeepalive(of record.Side, k splice.Keepalive) {
	o.c.relay.socketOf(of).keepAlive(k)
}

// ObservePayload implements splice.Sockets.
func (o owner) ObservePayload(to *payload.Keeper) { o.c.relay.observePayload(to) }

// InFlight implements splice.Sockets.
func (o owner) InFlight() bool { return o.c.relay.inFlight() || o.c.queued }

// Unresponsive implements splice.Sockets.
func (o owner) Unresponsive(of record.Side, silence time.Duration) bool {
	return o.c.stage == relaying && Unresponsive(uintptr(o.c.relay.socketOf(of).fd), silence)
}
