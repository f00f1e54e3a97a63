package splice

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// entry has the part of a connection or session that the registry shows: its client and front, and the fields that any
// goroutine may read.
type entry struct {
	front  *Front
	plan   *plan
	began  time.Duration
	scope  service.Scope // which endpoints are for the client
	portal service.Kind  // of dst
	cameBy uint32        // of a session: the index of the interface that its client's datagram came in by; 0: not known
	index  uint32        // in its shard of the registry, guarded by that

	// For Live: the owner writes these, and any goroutine reads them.
	stage   stage
	last    atomic.Int64                   // when bytes last moved, by the engine's clock; lowest bit: the client's
	reply   atomic.Int64                   // when the endpoint's first byte came, since it began; negative: it did not
	won     atomic.Pointer[record.Attempt] // the attempt that worked, which is not changed any more; nil: none did
	traffic Traffic

	id          uint64
	since       int64 // when it began, by the wall clock: ns since 1970
	client, dst netip.AddrPort
	who         *service.Workload                // of the client; nil: not known
	endpoint    atomic.Pointer[service.Endpoint] // nil: none was reached
}

// startTime is when it began, by the wall clock.
func (e *entry) startTime() time.Time { return time.Unix(0, e.since) }

// picker chooses among the endpoints that are for the client.
func (e *entry) picker() Picker { return e.front.pickers[e.scope] }

func (e *entry) clientAddr() netip.Addr { return e.client.Addr() }

// firstReply is when the endpoint's first byte came, since it began; negative: none came.
func (e *entry) firstReply() time.Duration { return time.Duration(e.reply.Load()) }

// movedAt notes that bytes have moved. Any goroutine may call it.
func (e *entry) movedAt(now time.Duration) { e.last.Store(int64(now) &^ 1) }

// clientMovedAt notes that bytes of the client have moved: it may wait for an answer from now on.
func (e *entry) clientMovedAt(now time.Duration) { e.last.Store(int64(now) | 1) }

// clientLast tells whether the last bytes were the client's.
func (e *entry) clientLast() bool { return e.last.Load()&1 != 0 }

// lastMoved is when they did, on the engine's clock.
func (e *entry) lastMoved() time.Duration { return time.Duration(e.last.Load() &^ 1) }

// reached describes the endpoint, zero when none was reached. Its address alone may have been known when it was: the
// balancer learns of a new endpoint just before the plan does. Any goroutine may call it.
func (e *entry) reached() service.Endpoint {
	at := e.endpoint.Load()
	if at == nil {
		return service.Endpoint{}
	}
	if *at == (service.Endpoint{Addr: at.Addr}) {
		if named := e.front.present().endpoint(at.Addr); named != nil {
			return *named
		}
	}
	return *at
}

// waitsUntil bounds the wait for an endpoint that is ready and answers; 0: it does not wait. Who comes from outside to
// an external frontend with a Local policy does not: other nodes may have an endpoint.
func (e *entry) waitsUntil() time.Duration {
	most := e.plan.policy.WaitForEndpoint
	if most <= 0 || e.scope == service.NodeScope && e.portal != service.ClusterIP || e.front.closed.Load() {
		return 0
	}
	return e.began + most
}

// isNode tells whether a client that source ranges leave out is this node, at an address that it has itself and dials
// from, and the ranges contain another address of it.
func (e *entry) isNode(client, dst netip.Addr) bool {
	return client == dst && e.plan.Port.AdmitsNode(inet.FamilyOf(client), e.front.core.opts.NodeAddresses())
}

// isOwn tells whether a client claims an address at which the daemon itself receives: a frontend of the service port,
// or a proxy port. Anybody may write that into a datagram, and the reply would come back as the next request, without
// end.
func (e *entry) isOwn(client netip.AddrPort) bool {
	core := e.front.core
	x, frontend := e.plan.exposure(client)
	if frontend && x.Frontend.Addr == client || core.listensAt(client, e.front.name.Protocol) {
		return true
	}
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), client.Port())
	if client.Addr().Is6() {
		everywhere = netip.AddrPortFrom(netip.IPv6Unspecified(), client.Port())
	}
	return (frontend || core.listensAt(everywhere, e.front.name.Protocol)) && (client.Addr().IsLoopback() ||
		slices.Contains(core.opts.NodeAddresses(), client.Addr()))
}

// located tells whether the endpoints of an admitted client depend on where it is. If so, start needs the index of the
// interface that it came in by.
func (e *entry) located() bool {
	_, depends := e.plan.scope(e.portal)
	return depends
}
