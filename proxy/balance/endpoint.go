package balance

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Endpoint is an endpoint of one service port and what is known of it. Each pick is a lease: its holder calls Dialled
// once, and Ended once if the dial worked. Safe for concurrent use.
type Endpoint struct {
	port *port
	addr netip.AddrPort

	// guarded by port.mu
	lists       int // balancers that list it
	open        int // leases
	failures    uint64
	lastFailure time.Time
}

// Addr is where the endpoint serves.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// Dialled reports a dial: nil when it worked, context.Canceled when it was given up, which is no failure of the
// endpoint. After an error the lease is over.
func (e *Endpoint) Dialled(err error, _ time.Duration) {
	if err != nil {
		e.close(!errors.Is(err, context.Canceled))
	}
}

// Ended ends a lease whose dial worked. Not ok: the endpoint broke it, by a reset or by its silence.
func (e *Endpoint) Ended(ok bool, _, _ int64) { e.close(!ok) }

// close ends a lease.
func (e *Endpoint) close(failed bool) {
	p := e.port
	p.mu.Lock()
	if failed {
		e.failures++
		e.lastFailure = time.Now()
	}
	e.open--
	e.dropUnused()
	unused := p.unused()
	p.mu.Unlock()
	if unused {
		p.all.dropUnused(p)
	}
}

// dropUnused drops an endpoint that no balancer lists and that has no lease.
func (e *Endpoint) dropUnused() {
	if e.lists == 0 && e.open == 0 {
		delete(e.port.endpoints, e.addr)
	}
}
