package balance

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
)

// EjectionEvent tells that an endpoint was ejected, or that it is no longer. One that leaves its Service meanwhile is
// told no more.
type EjectionEvent struct {
	Name service.PortName
	Addr netip.AddrPort
	Time time.Time
	Back bool
	Why  Failure // for which it was ejected
	Err  error   // its last failure
}

// mostEjectionEvents bounds the ejections that wait to be read.
const mostEjectionEvents = 256

// ejectionEvents passes them on. Who ejects holds the lock of a port, and does not wait for the reader.
type ejectionEvents struct {
	events chan EjectionEvent
	missed atomic.Uint64
}

func newEjectionEvents() ejectionEvents {
	return ejectionEvents{events: make(chan EjectionEvent, mostEjectionEvents)}
}

// tell is called with port.mu held.
func (n *ejectionEvents) tell(e *Endpoint, back bool) {
	select {
	case n.events <- EjectionEvent{e.port.name, e.addr, time.Now(), back, e.health.why, e.lastError}:
	default:
		n.missed.Add(1)
	}
}

// EjectionEvents has the ejections, for one reader.
func (all *Endpoints) EjectionEvents() <-chan EjectionEvent { return all.ejections.events }

// MissedEjections returns how many more there were since the last call than the reader of EjectionEvents took in time.
func (all *Endpoints) MissedEjections() uint64 { return all.ejections.missed.Swap(0) }
