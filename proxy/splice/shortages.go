package splice

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// ErrTransparent is reported to Options.Warn, at most every reportEvery, when endpoints see this node's address
// although the policy says that they are to see the client's.
var ErrTransparent = errors.New("the kernel grants no transparent socket, so endpoints see this node's address")

// rateLimit bounds how often something is reported that may happen with every connection. Safe for concurrent use.
type rateLimit struct{ next atomic.Int64 }

// reportEvery is the shortest time between two reports.
const reportEvery = 10 * time.Second

// allows tells whether a report is due, at a time on the core's clock.
func (r *rateLimit) allows(now time.Duration) bool {
	next := r.next.Load()
	return int64(now) >= next && r.next.CompareAndSwap(next, int64(now+reportEvery))
}

// PortsError is reported to Options.Warn, at most every reportEvery, when most of the local ports towards an
// endpoint are in use: connections will fail if more are taken.
type PortsError struct{ Endpoint netip.AddrPort }

func (e *PortsError) Error() string {
	return fmt.Sprintf("most of the local ports towards %s are in use", e.Endpoint)
}

// AcceptFailed counts an accept that failed for a shortage, and reports it.
func (c *Core) AcceptFailed(err error) {
	c.acceptErrors.Add(1)
	c.opts.Warn(err)
}

// DatagramDropped counts a datagram that the kernel did not take.
func (c *Core) DatagramDropped() { c.udpDropped.Add(1) }

// PortsCrowded counts a dial that found most of our ports towards the endpoint in use, and reports a PortsError.
func (c *Core) PortsCrowded(endpoint netip.AddrPort, now time.Duration) {
	c.portsCrowded.Add(1)
	if c.crowdedReports.allows(now) {
		c.opts.Warn(&PortsError{endpoint})
	}
}

// NotTransparent reports an ErrTransparent: a socket could not be bound to a client's address.
func (c *Core) NotTransparent(err error) {
	if c.transparentReports.allows(c.Now()) {
		c.opts.Warn(fmt.Errorf("%w: %w", ErrTransparent, err))
	}
}
