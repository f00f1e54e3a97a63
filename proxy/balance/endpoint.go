package balance

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
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
	health      health

	suspect atomic.Bool // it has failed, and has not worked since
}

// Addr is where the endpoint serves.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// Dialled reports a dial and how long it took: nil when it worked, context.Canceled when it was given up, which is no
// failure of the endpoint. After an error the lease is over. True: the endpoint is ejected for it.
func (e *Endpoint) Dialled(err error, took time.Duration) (ejected bool) {
	switch {
	case err == nil:
		e.dialled.Add(1)
		e.dials.add(took)
		if e.port.name.Protocol == inet.TCP { // a UDP socket says nothing of its endpoint
			e.works(Refused, TimedOut)
		}
		return false
	case errors.Is(err, context.Canceled):
		return e.close(nil, 0, 0, netip.Addr{})
	case isTimeout(err):
		return e.close(err, 1, TimedOut, netip.Addr{})
	}
	return e.close(err, 1, Refused, netip.Addr{})
}

// Answered reports the first byte of the endpoint.
func (e *Endpoint) Answered() { e.works(Refused, TimedOut, Silent, ClosedEarly) }

// Ended ends a lease whose dial worked. Broken is why, if the endpoint broke it, by a reset or by its silence. The
// first byte of the endpoint came so long after the connect; negative: none came. True: the endpoint is ejected for it.
func (e *Endpoint) Ended(client netip.Addr, broken error, firstByte time.Duration) (ejected bool) {
	kind := Silent
	switch {
	case firstByte >= 0:
		e.firstBytes.add(firstByte)
		kind = failures // none of those that are counted
	case broken == nil:
		e.works(Silent)
		e.triedWell()
	case e.port.name.Protocol == inet.UDP:
		kind = Refused
	}
	return e.close(broken, 0, kind, client)
}

// errClosedEarly is the last error of an endpoint that did.
var errClosedEarly = errors.New("closed in mid-exchange, and refused the next dial")

// ClosedEarly reports, after the end, that the endpoint ended the connection in mid-exchange and then refused dials.
// True: the endpoint is ejected for it. By default it is not: the dials that it refused eject it.
func (e *Endpoint) ClosedEarly() (ejected bool) {
	p := e.port
	p.mu.Lock()
	defer p.mu.Unlock()
	e.failures++
	e.lastFailure = time.Now()
	counts := p.ejectOn&service.EjectClosedEarly != 0
	if counts || !e.suspect.Load() { // else the refused dial is its last error
		e.lastError = errClosedEarly
	}
	return counts && p.endpoints[e.addr] == e && e.failed(ClosedEarly, netip.Addr{})
}

// close ends a lease, with a failure of a kind unless it is nil.
func (e *Endpoint) close(failure error, dials uint64, kind Failure, client netip.Addr) (ejected bool) {
	p := e.port
	p.mu.Lock()
	if failure != nil {
		e.dialsFailed += dials
		e.failures++
		e.lastFailure, e.lastError = time.Now(), failure
		if kind < failures {
			ejected = e.failed(kind, client)
		}
	}
	e.open--
	e.dropUnused()
	unused := p.unused()
	p.mu.Unlock()
	if unused {
		p.all.dropUnused(p)
	}
	return ejected
}

// dropUnused drops an endpoint that no balancer lists, that has no lease and is not drained. One that is ejected is
// kept for a while: it may be listed again.
func (e *Endpoint) dropUnused() {
	p := e.port
	if e.lists > 0 || e.open > 0 || p.drains[e.addr] != nil {
		return
	}
	if p.ejected[e.addr] == e {
		if len(p.balancers) > 0 && len(p.ejected) <= maxGone {
			return
		}
		p.forget(e)
	}
	delete(p.endpoints, e.addr)
}
