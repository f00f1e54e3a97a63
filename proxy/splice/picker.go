package splice

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
)

// Picker chooses endpoints for one front. It is called on the data path by several goroutines: it must not block.
type Picker interface {
	// Pick returns a lease of an endpoint for the client, by its service port's policy. The endpoints whose dials failed
	// are tried, each as often as they did: they are left out, but for the client's own. False: there is no endpoint left.
	Pick(client netip.Addr, tried []netip.AddrPort, policy *service.Policy) (Lease, bool)
	// MayRetry takes a further dial out of the budget of a policy. False: there is nothing left in it.
	MayRetry(policy *service.Policy) bool
	// Retried gives that back: the dial worked.
	Retried()
	// Join returns the State of an endpoint that a predecessor picked and dialled.
	Join(endpoint netip.AddrPort) State
}

// Lease is an endpoint that was picked for one connection or UDP session, which reports how the dial went and, if it
// worked, the end. After the last report it has no State.
type Lease struct {
	Endpoint netip.AddrPort
	Affinity string // how affinity bound the client; "" without affinity
	State    State  // where reports go; nil = nowhere
	Ejected  int    // endpoints that were left out, since they failed others
	Probe    bool   // the endpoint was ejected, and is tried again
	Again    bool   // it is the client's own: if the dial fails, it is picked once more
}

// lease is the part of a Lease that a connection keeps.
type lease struct{ state State }

// State gathers reports about an endpoint: the leases of all connections to it report there. It is called on the data
// path by several goroutines: it must not block.
type State interface {
	// Dialled reports a dial and how long it took: nil when it worked, context.Canceled when it was given up, which is
	// no failure of the endpoint. After an error the lease is over. True: the endpoint is ejected for it.
	Dialled(err error, took time.Duration) (ejected bool)
	// Answered reports the first byte of the endpoint.
	Answered()
	// Ended ends a lease whose dial worked. Broken is why, if the endpoint reset it, refused it (UDP) or did not answer
	// any more, else nil. The endpoint's first byte came so long after the connect; negative: none came. True: the
	// endpoint is ejected for it.
	Ended(client netip.Addr, broken error, firstByte time.Duration) (ejected bool)
	// ClosedEarly reports, after the end, that the endpoint ended the connection in mid-exchange and then refused dials.
	// True: the endpoint is ejected for it.
	ClosedEarly() (ejected bool)
}

// dialled reports how the dial went: see State.
func (l *lease) dialled(err error, took time.Duration) (ejected bool) {
	if l.state != nil {
		ejected = l.state.Dialled(err, took)
	}
	if err != nil {
		l.state = nil
	}
	return ejected
}

// answered reports the first byte: see State.
func (l *lease) answered() {
	if l.state != nil {
		l.state.Answered()
	}
}

// ended reports the end: see State. After a dial that failed it does nothing.
func (l *lease) ended(client netip.Addr, broken error, firstByte time.Duration) (ejected bool) {
	if l.state != nil {
		ejected = l.state.Ended(client, broken, firstByte)
	}
	l.state = nil
	return ejected
}
