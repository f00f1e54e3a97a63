package splice

import (
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/record"
)

// Step tells the engine what to do next for a connection.
type Step struct {
	Kind     StepKind
	Endpoint netip.AddrPort // of StepDial
	As       netip.Addr     // of StepDial: the client's address if the endpoint is to see it, else zero
	Dial     Dial           // of StepDial: which it is
	Until    time.Duration  // when to call Expired (of StepDial TimedOut) unless something else is before; negative: never
	Header   []byte         // of StepCarry: goes to the endpoint before the client's bytes, and is not counted
	Again    []byte         // of StepCarry: the bytes that Replay has kept so far: the endpoint gets them after Header
	Drop     bool           // first close the socket to the endpoint, and forget what was read for it and not sent
	Reset    bool           // of StepEnd: both peers are to see a reset, else a FIN
	Deliver  Streams        // of StepEnd: what was read of these, or can be, reaches the peers before: BeginDelivery
}

// Dial is the number of a dial under way, 0 or 1: there are two at most. As long as there is one, see HedgeAt.
type Dial uint8

// StepKind tells the kinds of Step apart.
type StepKind uint8

// The steps.
const (
	StepNone      StepKind = iota // nothing: go on as before
	StepDial                      // connect to the endpoint, then call Connected, Failed or TimedOut
	StepWait                      // call Expired; meanwhile call Broken if the client leaves
	StepCarry                     // carry bytes both ways
	StepHalfClose                 // close the other side for writing, and go on with the other direction
	StepEnd                       // close both sockets, then call Closed; may come again while Deliver lasts, without it
)

// step is the next step of a connection or session. Conn turns it into a Step.
type step struct {
	kind     stepKind
	outcome  record.Outcome // of stepRefuse
	endpoint netip.AddrPort // of stepDial
	as       netip.Addr     // of stepDial: the client's address if the endpoint is to see it, else zero
	lookup   func() bool    // of stepAsk
	until    time.Duration  // of stepWait and stepQueue
}

type stepKind uint8

const (
	stepDial        stepKind = iota // connect to the endpoint, then call connected or failed
	stepLookup                      // do the lookup, which may block, on another goroutine, then call lookedUp
	stepWait                        // call next at that time, or as soon as the front has other endpoints
	stepKeepDialing                 // the other dial is still under way
	stepQueue                       // the same, in the queue of the Service
	stepRefuse                      // end with that outcome
)

// Streams are directions of a connection.
type Streams uint8

// The streams, by the side that they come from.
const (
	FromClient Streams = 1 << iota
	FromEndpoint
)

// StreamFrom returns the stream that comes from a side, none for the proxy.
func StreamFrom(side record.Side) Streams {
	switch side {
	case record.Client:
		return FromClient
	case record.Endpoint:
		return FromEndpoint
	}
	return 0
}
