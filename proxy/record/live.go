package record

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
)

// Live is an open connection or UDP session at one moment.
type Live struct {
	ID          uint64 // the record's
	Start       time.Time
	Service     service.PortName
	State       ConnState
	LastMoved   time.Time // when bytes last moved, or an endpoint was reached; Start before that
	Client      netip.AddrPort
	ClientPod   string // this and the next two as in the record
	ClientNode  string
	ClientZone  string
	OriginalDst netip.AddrPort
	Portal      service.Kind
	Logging     service.Logging  // as in the record
	Attempts    int              // dials so far
	Proxy       netip.AddrPort   // our own address and port towards the endpoint, zero until one is reached
	Endpoint    service.Endpoint // its Addr is zero until an endpoint is reached
	FirstByte   time.Duration    // as in the record
	Removed     bool             // its endpoint is no longer there, or serves no more; TCP alone
	UDPIdle     time.Duration    // of a session: how long it may be silent; 0: for ever
	Unanswered  bool             // of a session: the client was the last to send

	BytesFromClient, BytesToEndpoint, BytesFromEndpoint, BytesToClient int64 // as in the record

	ClientTCP, EndpointTCP TCPInfo // where it was requested
}

// ConnState is how far a connection or session has come.
type ConnState string

// The states.
const (
	StateDialing    ConnState = "dialing"     // an endpoint is dialled
	StateWaiting    ConnState = "waiting"     // no endpoint is ready, or all have failed and are dialled again
	StateOpen       ConnState = "open"        // bytes are carried both ways
	StateHalfClosed ConnState = "half_closed" // one side has closed, and bytes of the other are carried
	StateDelivering ConnState = "delivering"  // it has ended, and what one side has sent is still to reach the other
)

// ConnStates returns all of them.
func ConnStates() []ConnState {
	return []ConnState{StateDialing, StateWaiting, StateOpen, StateHalfClosed, StateDelivering}
}

// SnapshotParts is into how many parts a list of all open connections is cut, so that it is never made at once.
const SnapshotParts = 64
