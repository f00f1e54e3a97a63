package splice

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/service"
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
	Removed     bool             // its endpoint is no longer there, or serves no more; TCP alone
	UDPIdle     time.Duration    // of a session: how long it may be silent; 0: for ever
	Unanswered  bool             // of a session: the client was the last to send

	BytesFromClient, BytesToEndpoint, BytesFromEndpoint, BytesToClient int64 // as in the record

	ClientTCP, EndpointTCP TCPInfo // of AskTCPInfo alone
}

// ConnState is how far a connection or session has come.
type ConnState string

// The states.
const (
	StateDialing    ConnState = "dialing"     // an endpoint is asked
	StateWaiting    ConnState = "waiting"     // no endpoint is ready, or all have failed and are dialled again
	StateOpen       ConnState = "open"        // bytes are carried both ways
	StateHalfClosed ConnState = "half_closed" // one side has closed, and bytes of the other are carried
	StateDelivering ConnState = "delivering"  // it has ended, and what one side has sent is still to reach the other
)

// stage is how far a life has come, and its dials so far. Its owner writes it, and any goroutine reads it.
type stage struct{ both atomic.Uint32 }

// The stages, which ConnState names. Dials count above them.
const (
	dialing uint32 = iota
	waiting
	open
	halfClosed
	delivering

	oneDial
)

// enter notes the stage. Most are entered once, and to look costs less than to store.
func (s *stage) enter(next uint32) {
	if now := s.both.Load(); now%oneDial != next {
		s.both.Store(now - now%oneDial + next)
	}
}

func (s *stage) dial() { s.both.Add(oneDial) }

func (s *stage) load() (ConnState, int) {
	now := s.both.Load()
	names := [...]ConnState{dialing: StateDialing, waiting: StateWaiting, open: StateOpen, halfClosed: StateHalfClosed,
		delivering: StateDelivering}
	return names[now%oneDial], int(now / oneDial)
}

// live shows a connection or session that is registered, from any goroutine: what else it reads does not change any
// more.
func (f *life) live() Live {
	t := &f.traffic
	state, dials := f.stage.load()
	policy := &f.front.present().policy
	l := Live{
		ID: f.id, Start: f.startTime(), Service: f.front.name, State: state,
		LastMoved: f.startTime().Add(f.lastMoved() - f.began), Client: f.client, OriginalDst: f.dst, Portal: f.portal,
		Attempts: dials, Endpoint: f.reached(), Logging: policy.Logging,
		BytesFromClient: t.FromClient.Load(), BytesToEndpoint: t.ToEndpoint.Load(),
		BytesFromEndpoint: t.FromEndpoint.Load(), BytesToClient: t.ToClient.Load(),
	}
	if f.front.name.Protocol == service.UDP {
		l.UDPIdle, l.Unanswered = max(0, policy.UDPIdle), f.clientLast()
	}
	if won := f.won.Load(); won != nil {
		l.Proxy = won.Proxy
	}
	if f.who != nil {
		l.ClientPod, l.ClientNode, l.ClientZone = f.who.Pod, f.who.Node, f.who.Zone
	}
	return l
}
