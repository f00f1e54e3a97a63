package splice

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// ErrTransparent is what Options.Trouble is told, once in a while, when endpoints see this node's address although the
// policy says that they are to see the client's.
var ErrTransparent = errors.New("the kernel grants no transparent socket, so endpoints see this node's address")

// seldom keeps what may happen with every connection from being told as often. Safe for concurrent use.
type seldom struct{ due atomic.Int64 }

// seldomEvery is how often it is told.
const seldomEvery = 10 * time.Second

// now tells whether it is time, on the loops' clocks.
func (s *seldom) now(clock time.Duration) bool {
	due := s.due.Load()
	return int64(clock) >= due && s.due.CompareAndSwap(due, int64(clock+seldomEvery))
}

// PortsError is what Options.Trouble is told, once in a while, before connections fail for it: most of the local ports
// towards an endpoint are in use.
type PortsError struct{ Endpoint netip.AddrPort }

func (e *PortsError) Error() string {
	return fmt.Sprintf("most of the local ports towards %s are in use", e.Endpoint)
}

// AcceptFailed counts an accept that failed for a shortage, and reports it.
func (c *Core) AcceptFailed(err error) {
	c.acceptErrors.Add(1)
	c.opts.Trouble(err)
}

// DatagramDropped counts a datagram that the kernel did not take.
func (c *Core) DatagramDropped() { c.udpDropped.Add(1) }

// PortsCrowded counts a dial that found most of our ports towards the endpoint in use, and reports it once in a while.
func (c *Core) PortsCrowded(endpoint netip.AddrPort, now time.Duration) {
	c.portsCrowded.Add(1)
	if c.crowdedTold.now(now) {
		c.opts.Trouble(&PortsError{endpoint})
	}
}

// NotTransparent reports, once in a while, that a socket could not be bound to a client's address.
func (c *Core) NotTransparent(err error) {
	if c.transparentTold.now(c.Now()) {
		c.opts.Trouble(fmt.Errorf("%w: %w", ErrTransparent, err))
	}
}
