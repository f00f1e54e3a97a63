package splice

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// Conn is one TCP connection from its accept to its record, without its sockets. An engine embeds it by value in a
// connection of its own, calls the method that names what has happened, and does the Step that it returns before it
// calls another: Accept, Admit, then Connected or Failed for each StepDial, then EOF and Broken, and Closed
// after StepEnd. Expired and Exhausted are called whenever they are due. EOF and Broken may return a StepDial, with
// Drop.
//
// One goroutine at a time owns a Conn and calls its methods. now is the time on the core's clock: Core.Now.
type Conn struct {
	life    life
	owner   Owner
	quota   *quota.Client // whose share it counts against; nil: it was refused
	waiting bool          // for another round of dials, or for an endpoint
	replays uint8         // of replay
	lookups uint8         // lookups at the host so far

	clientEOF, endpointEOF bool // that side's stream ended first

	kept   atomic.Bool   // somebody keeps it
	stays  atomic.Bool   // the hand-over under way cannot pass it on
	gone   atomic.Bool   // its endpoint was removed, as far as the core has seen
	goneAt time.Duration // when that was noticed, on the core's clock; 0: it is there
	replay Replay

	keeper *payload.Keeper // of payload; nil: none is kept
}

// Owner is the engine's connection that a Conn is part of.
type Owner interface {
	// Post calls next on the goroutine that owns the connection, soon, and does the Step that it returns. Any goroutine
	// may call it, at any time. After the engine has ended it does nothing.
	Post(next func(now time.Duration) Step)
	// Detach stops carrying the connection, soon, and calls tell with its Departure; nil: it is not established, or cannot
	// be passed on. Any goroutine may call it, and tell does not block.
	Detach(tell func(*Departure))
	// Keep begins to note what the connection does, soon, and calls tell; nil: it cannot, now or ever. Any goroutine may
	// call it, and tell does not block.
	Keep(tell func(*Kept))
	// Unkept tells that nobody has the sockets any more that Keep has passed on. Any goroutine may call it.
	Unkept()
	// Interface is the index of the interface that the client came in by, 0 when it is not known.
	Interface() int
	// TCPInfo calls tell with TCP_INFO of both sockets, soon; they are not known once the connection has ended. Any
	// goroutine may call it, and tell does not block.
	TCPInfo(tell func(client, endpoint record.TCPInfo))
	Sockets
}

// Sockets are the two sockets of an established connection. Its owner calls them.
type Sockets interface {
	// SetKeepalive sets how one of them probes its peer.
	SetKeepalive(of record.Side, k Keepalive)
	// InFlight tells whether bytes are under way in the kernel: not read yet, or not acknowledged. False also where
	// that is not known.
	InFlight() bool
	// Unresponsive tells whether one of them retransmits bytes that were not acknowledged, and nothing came from its peer
	// for so long.
	Unresponsive(of record.Side, silence time.Duration) bool
	// ObservePayload has each load that is read from now on passed to a keeper of payload, before it counts: it is
	// copied, where it would be spliced. nil: to nobody.
	ObservePayload(*payload.Keeper)
}

// Accept begins a connection that a socket of a front has accepted.
func (c *Conn) Accept(f *Front, owner Owner, client netip.AddrPort, now time.Duration) {
	c.life.begin(f, client, now)
	c.owner, c.life.dial.repeats = owner, true
	f.core.counts.conns.Add(1)
}

// Admit lets the connection in, or refuses it, by what its client has dialled.
func (c *Conn) Admit(dst netip.AddrPort, now time.Duration) Step {
	o := c.life.admission.admit(&c.life.entry, dst)
	if o == record.OutcomeNotPortal && c.dialing().changeFront(dst) {
		o = c.life.admission.admit(&c.life.entry, dst)
	}
	if o == "" {
		o = c.dialing().take()
	}
	if o != "" {
		return c.end(ending{record.Proxy, record.Reset, o, nil})
	}
	iface := 0
	if c.life.entry.located() {
		iface = c.owner.Interface()
	}
	c.life.entry.front.core.Registry.add(connMember{c})
	c.life.entry.started()
	return c.dialing().advance(c.life.dial.start(&c.life.entry, iface, now), now)
}

// post has the owner call next, unless the connection has ended by then.
func post(c *Conn, next func(now time.Duration) Step) {
	c.owner.Post(func(now time.Duration) Step {
		if c.Ended() {
			return Step{}
		}
		return next(now)
	})
}

// HedgeAt is when to call Expired as long as dials are under way, unless one of them is answered or fails before;
// negative: never. It changes only by steps.
func (c *Conn) HedgeAt() time.Duration { return c.life.dial.hedgeAt(&c.life.entry) }

// Client is the address that the connection came from.
func (c *Conn) Client() netip.AddrPort { return c.life.entry.client }

// Dialling notes our own address of an attempt under way.
func (c *Conn) Dialling(d Dial, proxy netip.AddrPort) { c.life.dial.underWay(d).Proxy = proxy }

// Failed ends an attempt under way. The engine has closed its socket, and has reported a shortage to Options.Warn.
func (c *Conn) Failed(d Dial, err error, lack Shortage, now time.Duration) Step {
	c.life.dial.turnTo(d)
	return c.dialing().advance(c.life.dial.failed(&c.life.entry, err, lack, now), now)
}

// Connected ends an attempt under way: its endpoint is reached. The engine closes the socket of another.
func (c *Conn) Connected(d Dial, now time.Duration) Step {
	c.life.dial.turnTo(d)
	c.life.connected(now)
	c.life.entry.movedAt(now)
	c.open().payload().begin()
	c.open().established(now)
	again := c.open().reached()
	if len(again) > 0 {
		c.life.entry.clientMovedAt(now)
	}
	s := Step{Kind: StepCarry, Until: c.Until(now), Again: again}
	if c.life.entry.plan.policy.ClientAddress == service.AddressProxyV2 {
		s.Header = proxyHeader(c.life.entry.client, c.life.entry.dst)
	}
	return s
}

// Traffic counts the bytes that the engine has carried so far.
func (c *Conn) Traffic() *Traffic { return &c.life.entry.traffic }

// Moved notes that bytes have moved, of the client too or of the endpoint alone. Any goroutine may call it.
func (c *Conn) Moved(now time.Duration, ofClient bool) {
	if ofClient {
		c.life.entry.clientMovedAt(now)
	} else {
		c.life.entry.movedAt(now)
	}
}

// FirstByte notes that the endpoint has sent something. A second call does nothing.
func (c *Conn) FirstByte(now time.Duration) {
	if c.life.entry.firstReply() < 0 {
		c.life.firstByte(now)
		c.replay.Forget()
	}
}

// HalfClosed reports whether one of the streams has ended.
func (c *Conn) HalfClosed() bool { return c.clientEOF || c.endpointEOF }

// EOF ends the stream from one side, all of which was passed on. It is called once for each side, and again for the
// client's after a step with Drop.
func (c *Conn) EOF(from record.Side, now time.Duration) Step {
	if s, early := c.open().closedEarly(from, now); early {
		return s
	}
	switch {
	case c.clientEOF:
		return c.end(ending{record.Client, record.FIN, record.OutcomeOK, nil})
	case c.endpointEOF:
		return c.end(ending{record.Endpoint, record.FIN, record.OutcomeOK, nil})
	}
	c.clientEOF, c.endpointEOF = from == record.Client, from == record.Endpoint
	if c.endpointEOF {
		c.life.closedFirst(now)
	}
	c.life.entry.movedAt(now)
	c.life.entry.stage.enter(halfClosed)
	return Step{Kind: StepHalfClose, Until: c.Until(now)}
}

// Broken ends a connection one side of which is no more. err is nil if the kernel had no error for it; lost: the peer
// stopped answering, else it sent a reset.
//
// Bytes that the side has sent reach the other before that sees the reset, as if the two were connected directly.
func (c *Conn) Broken(side record.Side, err error, lost bool) Step {
	if side == record.Endpoint {
		if s, early := c.open().brokenEarly(err, lost); early {
			return s
		}
	}
	how := ending{side, record.Reset, record.OutcomeEndpointReset, err}
	switch {
	case side == record.Client && lost:
		how.closeType, how.outcome = record.Timeout, record.OutcomeClientLost
	case side == record.Client:
		how.outcome = record.OutcomeClientReset
	case lost:
		how.closeType, how.outcome = record.Timeout, record.OutcomeEndpointLost
	}
	return c.endAfter(StreamFrom(side), how)
}

// Abort ends the connection, or what it still delivers, by force: OutcomeCut, or OutcomeResources where the engine
// lacks something, such as descriptors or memory.
func (c *Conn) Abort(o record.Outcome) Step {
	if c.Ended() {
		return Step{Kind: StepEnd, Reset: true}
	}
	return c.end(ending{record.Proxy, record.Reset, o, nil})
}

// Expired is called at Until of the last step that had one, and at HedgeAt.
func (c *Conn) Expired(now time.Duration) Step {
	switch silent := c.open().silentUntil(); {
	case c.waiting:
		return c.dialing().redial(now)
	case c.life.dial.lookupPending():
		return Step{}
	case c.life.dial.dialing:
		return c.dialing().hedge(now)
	case silent < 0, now < silent:
		return c.open().look(now)
	case c.HalfClosed():
		return c.endAfter(FromClient|FromEndpoint, ending{record.Proxy, record.Timeout, record.OutcomeHalfClosed, nil})
	default:
		return c.endAfter(FromClient|FromEndpoint, ending{record.Proxy, record.Timeout, record.OutcomeIdle, nil})
	}
}

// end decides how the connection ends. The first decision counts.
func (c *Conn) end(how ending) Step {
	if c.Ended() {
		return Step{}
	}
	c.dialing().cancelWait()
	c.life.result.conclude(how)
	c.life.result.ended.Replays = int(c.replays)
	return Step{Kind: StepEnd, Reset: how.closeType != record.FIN}
}

// endAfter ends it once streams have reached their peers.
func (c *Conn) endAfter(streams Streams, how ending) Step {
	s := c.end(how)
	if s.Kind == StepEnd {
		s.Deliver = streams
	}
	return s
}

// Ended reports whether StepEnd was returned. It may still deliver.
func (c *Conn) Ended() bool { return c.life.result.ended != nil }

// Record returns the record as far as it is known, nil before StepEnd. Until Closed the engine sets there what the
// kernel told of both sockets before they were closed, if Options.TCPInfo says so, and how long each side took no
// bytes.
func (c *Conn) Record() *record.Record {
	if c.life.result.ended == nil {
		return nil
	}
	return &c.life.result.ended.Record
}

// Closed gives back what the connection took, and reports it. It is called once, when its sockets are closed.
func (c *Conn) Closed(now time.Duration) {
	core := c.life.entry.front.core
	if state, _ := c.life.entry.stage.load(); state == record.StateDelivering {
		core.counts.delivering.Add(-1)
	}
	if c.life.dial.hedged != nil {
		c.life.dial.dropHedged(&c.life.entry, errGivenUp, context.Canceled, now)
	}
	kept := c.open().payload().end()
	if c.quota != nil {
		c.Passage().giveBack()
	}
	c.life.admission.uncount(&c.life.entry)
	c.life.report(now, kept)
	core.counts.conns.Add(-1) // when none is left, all are reported
}
