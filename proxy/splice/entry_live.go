package splice

import (
	"sync/atomic"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
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

func (s *stage) load() (record.ConnState, int) {
	now := s.both.Load()
	names := [...]record.ConnState{dialing: record.StateDialing, waiting: record.StateWaiting, open: record.StateOpen,
		halfClosed: record.StateHalfClosed, delivering: record.StateDelivering}
	return names[now%oneDial], int(now / oneDial)
}

// live shows a connection or session that is registered, from any goroutine: what else it reads does not change any
// more.
func (e *entry) live() record.Live {
	t := &e.traffic
	state, dials := e.stage.load()
	policy := &e.front.present().policy
	l := record.Live{
		ID: e.id, Start: e.startTime(), Service: e.front.name, State: state,
		LastMoved: e.startTime().Add(e.lastMoved() - e.began), Client: e.client, OriginalDst: e.dst, Portal: e.portal,
		Attempts: dials, Endpoint: e.reached(), Logging: policy.Logging, FirstByte: e.firstReply(),
		BytesFromClient: t.FromClient.Load(), BytesToEndpoint: t.ToEndpoint.Load(),
		BytesFromEndpoint: t.FromEndpoint.Load(), BytesToClient: t.ToClient.Load(),
	}
	if e.front.name.Protocol == inet.UDP {
		l.UDPIdle, l.Unanswered = max(0, policy.UDPIdle), e.clientLast()
	}
	if won := e.won.Load(); won != nil {
		l.Proxy = won.Proxy
	}
	if e.who != nil {
		l.ClientPod, l.ClientNode, l.ClientZone = e.who.Pod, e.who.Node, e.who.Zone
	}
	return l
}
