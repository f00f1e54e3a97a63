package balance

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"
)

// Endpoint is an endpoint of one service port and what is known of it. Each pick is a lease: its holder calls Dialled
// once, and Ended once if the dial worked. Safe for concurrent use.
type Endpoint struct {
	port *port
	addr netip.AddrPort

	dials, firstBytes times
	dialled           atomic.Uint64 // dials that worked

	// guarded by port.mu
	lists       int // balancers that list it
	open        int // leases
	dialsFailed uint64
	failures    uint64 // those, and what the endpoint broke later
	lastFailure time.Time
	lastError   error
}

// Addr is where the endpoint serves.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// Dialled reports a dial and how long it took: nil when it worked, context.Canceled when it was given up, which is no
// failure of the endpoint. After an error the lease is over.
func (e *Endpoint) Dialled(err error, took time.Duration) {
	switch {
	case err == nil:
		e.dialled.Add(1)
		e.dials.add(took)
	case errors.Is(err, context.Canceled):
		e.close(nil, 0)
	default:
		e.close(err, 1)
	}
}

// Ended ends a lease whose dial worked. Broken is why, if the endpoint broke it, by a reset or by its silence. The
// first byte of the endpoint came so long after the connect; negative: none came.
func (e *Endpoint) Ended(broken error, firstByte time.Duration, _, _ int64) {
	if firstByte >= 0 {
		e.firstBytes.add(firstByte)
	}
	e.close(broken, 0)
}

// close ends a lease, with a failure unless it is nil.
func (e *Endpoint) close(failure error, dials uint64) {
	p := e.port
	p.mu.Lock()
	if failure != nil {
		e.dialsFailed += dials
		e.failures++
		e.lastFailure, e.lastError = time.Now(), failure
	}
	e.open--
	e.dropUnused()
	unused := p.unused()
	p.mu.Unlock()
	if unused {
		p.all.dropUnused(p)
	}
}

// dropUnused drops an endpoint that no balancer lists, that has no lease and is not drained.
func (e *Endpoint) dropUnused() {
	if e.lists == 0 && e.open == 0 && e.port.drains[e.addr] == nil {
		delete(e.port.endpoints, e.addr)
	}
}
