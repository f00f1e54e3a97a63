package balance

import (
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
)

// Statistics describe an endpoint at one moment. Times are of the last thousand connections or so; nil: there is none
// yet.
type Statistics struct {
	Address         netip.AddrPort
	Open            int    // leases
	Dials           uint64 // that worked or failed, since the endpoint was first picked
	Failures        uint64 // dials that failed, and connections that the endpoint broke
	LastFailure     time.Time
	LastError       error // nil: there was no failure
	Dial, FirstByte []time.Duration
	// How many of these times there are up to each of TimeBounds, from the one before, and at last longer ones; nil: none.
	DialCounts, FirstByteCounts []uint64
	Ejected                     EjectionStatus
}

// EjectionStatus says whether an endpoint is ejected, and for how long. The zero value is right for an endpoint that
// works.
type EjectionStatus struct {
	For     Failure   // what it was ejected for ; of no meaning unless it is
	Is      bool      // ejected
	LeftOut bool      // new connections do not go there; else too many others are ejected too
	Until   time.Time // when one connection tries it again
}

// Statistics returns the statistics of the endpoints of a service port that were picked, in any order, with the
// quantiles asked for. Picks of the service port wait for no more than a copy of a list.
func (all *Endpoints) Statistics(name service.PortName, parts ...float64) []Statistics {
	var out []Statistics
	for _, e := range all.picked(name) {
		out = append(out, e.statistics(parts))
	}
	return out
}

// Ejected returns the ejected endpoints among those that the balancers of a service port list. Costs O(these).
func (all *Endpoints) Ejected(name service.PortName) map[netip.AddrPort]EjectionStatus {
	if all.Ejections() == 0 {
		return nil
	}
	p := all.find(name)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[netip.AddrPort]EjectionStatus{}
	for at, e := range p.ejected {
		if e.lists > 0 {
			out[at] = e.ejectionStatus()
		}
	}
	return out
}

// picked returns the endpoints of a service port that were picked.
func (all *Endpoints) picked(name service.PortName) (out []*Endpoint) {
	p := all.find(name)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		out = append(out, e)
	}
	return out
}

func (all *Endpoints) find(name service.PortName) *port {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.ports[name]
}

func (e *Endpoint) statistics(parts []float64) Statistics {
	s := Statistics{
		Address: e.addr, Dial: e.dials.quantiles(parts...), FirstByte: e.firstBytes.quantiles(parts...),
	}
	if len(parts) > 0 {
		s.DialCounts, s.FirstByteCounts = e.dials.snapshot(), e.firstBytes.snapshot()
	}
	e.port.mu.Lock()
	defer e.port.mu.Unlock()
	s.Open, s.Dials, s.Failures = e.open, e.dialled.Load()+e.dialsFailed, e.failures
	s.LastFailure, s.LastError = e.lastFailure, e.lastError
	s.Ejected = e.ejectionStatus()
	return s
}

func (e *Endpoint) ejectionStatus() (s EjectionStatus) {
	h := &e.health
	if !h.ejected {
		return s
	}
	s = EjectionStatus{Is: true, For: h.why, Until: h.until}
	for _, b := range e.port.balancers {
		at, lists := search(b.rotation.members, e.addr)
		s.LeftOut = s.LeftOut || lists && b.rotation.members[at].is(leftOut)
	}
	return s
}

// Ejections is how many endpoints are ejected, of all service ports.
func (all *Endpoints) Ejections() int { return int(all.ejecting.n.Load()) }

// BudgetExhausted is how many further dials were not made because the budget of a service port had nothing left.
func (all *Endpoints) BudgetExhausted() uint64 { return all.exhausted.Load() }
