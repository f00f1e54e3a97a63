package splice

import (
	"net/netip"
	"time"
)

// Picker chooses endpoints for one front. It is called on the data path by several goroutines: it must not block.
type Picker interface {
	// Pick returns a lease of an endpoint for the client that is not among tried as long as there is one. False: there
	// is no endpoint left.
	Pick(client netip.Addr, tried []netip.AddrPort) (Lease, bool)
	// Join returns the State of an endpoint that a predecessor picked and dialled.
	Join(endpoint netip.AddrPort) State
}

// Lease is an endpoint that was picked for one connection or UDP session, which reports how the dial went and, if it
// worked, the end. After the last report it has no State.
type Lease struct {
	Endpoint netip.AddrPort
	Affinity string // how affinity bound the client; "" without affinity
	State    State  // where reports go; nil = nowhere
}

// lease is what a connection keeps of a Lease.
type lease struct{ state State }

// State is what is known of an endpoint: the leases of all connections to it report there. It is called on the data
// path by several goroutines: it must not block.
type State interface {
	// Dialled reports a dial and how long it took: nil when it worked, context.Canceled when it was given up, which is
	// no failure of the endpoint. After an error the lease is over.
	Dialled(err error, took time.Duration)
	// Ended ends a lease whose dial worked, with the payload that was carried, in bytes. Broken is why, if the endpoint
	// reset it, refused it (UDP) or did not answer any more, else nil. The endpoint's first byte came so long after the
	// connect; negative: none came.
	Ended(broken error, firstByte time.Duration, toEndpoint, fromEndpoint int64)
}

// dialled reports how the dial went: see State.
func (l *lease) dialled(err error, took time.Duration) {
	if l.state != nil {
		l.state.Dialled(err, took)
	}
	if err != nil {
		l.state = nil
	}
}

// ended reports the end: see State. After a dial that failed it does nothing.
func (l *lease) ended(broken error, firstByte time.Duration, toEndpoint, fromEndpoint int64) {
	if l.state != nil {
		l.state.Ended(broken, firstByte, toEndpoint, fromEndpoint)
	}
	l.state = nil
}
