package splice

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/portal/service"
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

// ReceiveBufferError is reported to Options.Warn when the kernel tells that it dropped datagrams to or from the
// endpoints of a service port, since a receive buffer was full. Of those that come as segments of one buffer it counts
// one.
type ReceiveBufferError struct {
	Service   service.PortName
	Datagrams uint32
}

func (e *ReceiveBufferError) Error() string {
	return fmt.Sprintf("%d datagrams of %s found the receive buffer full", e.Datagrams, e.Service.Label())
}

// ShortagePause is between two accepts, or receives, that fail for a shortage.
func ShortagePause() backoff.Pause {
	return backoff.Pause{First: 5 * time.Millisecond, Last: time.Second}
}

// Shortages counts what engines lack, and reports it to Options.Warn. Safe for concurrent use.
type Shortages struct {
	warn func(error)

	acceptErrors, udpDropped, portsCrowded atomic.Uint64
	transparentReports, crowdedReports     rateLimit
}

// AcceptFailed counts an accept that failed for a shortage, and reports it.
func (s *Shortages) AcceptFailed(err error) {
	s.acceptErrors.Add(1)
	s.warn(err)
}

// DatagramDropped counts a datagram that the kernel did not take.
func (s *Shortages) DatagramDropped() { s.udpDropped.Add(1) }

// PortsCrowded counts a dial that found most of our ports towards the endpoint in use, and reports a PortsError.
func (s *Shortages) PortsCrowded(endpoint netip.AddrPort, now time.Duration) {
	s.portsCrowded.Add(1)
	if s.crowdedReports.allows(now) {
		s.warn(&PortsError{endpoint})
	}
}

// NotTransparent reports an ErrTransparent: a socket could not be bound to a client's address.
func (s *Shortages) NotTransparent(err error, now time.Duration) {
	if s.transparentReports.allows(now) {
		s.warn(fmt.Errorf("%w: %w", ErrTransparent, err))
	}
}
