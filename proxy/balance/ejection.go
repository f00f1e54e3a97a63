package balance

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
)

// Failure is a kind of what an endpoint may do to a connection. Each is counted apart: one that refuses is most likely
// not there, and one that does not answer may be far.
type Failure uint8

// The kinds.
const (
	Refused     Failure = iota // it refused the dial, or (UDP) a session that had no answer yet
	TimedOut                   // it did not answer the dial in time
	Silent                     // it reset the connection, or was lost, before its first byte
	ClosedEarly                // it closed the connection in mid-exchange, and refused the next dial
	failures
)

func (f Failure) String() string {
	return [failures]string{"refused", "timed_out", "reset", "closed_early"}[f]
}

// event is what settings call it.
func (f Failure) event() service.EjectOn {
	return [failures]service.EjectOn{
		service.EjectConnect, service.EjectConnect, service.EjectReset, service.EjectClosedEarly,
	}[f]
}

const (
	firstBan = time.Second
	lastBan  = time.Minute
	// probeEvery is how long the connection that tries an ejected endpoint again has, before another may.
	probeEvery = time.Second
	// aloneFactor is for resets of connections of one client alone, who may have asked for them.
	aloneFactor = 4
	// maxGone is how many ejected endpoints of a service port are kept that are not listed.
	maxGone = 64
)

// health has an endpoint's failures and ejections. Its zero value is right for an endpoint that works. port.mu guards
// it.
type health struct {
	inRow    [failures]int
	resetter netip.Addr // whose connection was reset first
	several  bool       // connections of other clients were too
	ejected  bool
	why      Failure
	times    int       // ejected in a row: each time for twice as long
	until    time.Time // then one connection probes
	probed   bool      // that connection is under way
}

// failed notes a failure in the lease of a client. True: the endpoint was ejected for it, or longer.
func (e *Endpoint) failed(f Failure, client netip.Addr) bool {
	h, most := &e.health, e.port.ejectAfter
	counts := h.ejected || e.port.ejectOn&f.event() != 0 // whatever happens to the one that tries it again counts
	if most <= 0 || !counts {
		return false
	}
	e.suspect.Store(true)
	h.inRow[f]++
	if f == Silent {
		if h.several = h.several || h.resetter.IsValid() && h.resetter != client; !h.several {
			h.resetter, most = client, most*aloneFactor
		}
	}
	switch {
	case h.ejected && !h.probed, !h.ejected && h.inRow[f] < most:
		return false
	}
	again := h.ejected
	h.ejected, h.why, h.probed = true, f, false
	h.until = time.Now().Add(ban(h.times))
	if h.times++; !again {
		e.port.eject(e)
		e.port.all.ejections.tell(e, false)
	}
	return true
}

// ban is how long an endpoint is ejected that was so often before in a row, but for up to a quarter, so that nodes and
// endpoints do not come back together.
func ban(times int) time.Duration {
	d := lastBan
	if times < 6 {
		d = firstBan << times
	}
	return d - rand.N(d/4)
}

// works notes that an endpoint works as far as failures of these kinds go.
func (e *Endpoint) works(kinds ...Failure) {
	if !e.suspect.Load() {
		return
	}
	e.port.mu.Lock()
	defer e.port.mu.Unlock()
	for _, f := range kinds {
		e.health.inRow[f] = 0
		if e.health.ejected && e.health.why == f {
			e.port.all.ejections.tell(e, true)
			e.readmit()
		}
	}
	if !e.health.ejected && e.health.inRow == [failures]int{} {
		e.recover()
	}
}

// triedWell readmits an endpoint that closed connections early, if the one that tries it has ended well: with protocols
// that have no answer nothing else tells. Others that end may be of the same crash.
func (e *Endpoint) triedWell() {
	if !e.suspect.Load() {
		return
	}
	e.port.mu.Lock()
	probed := e.health.ejected && e.health.probed
	e.port.mu.Unlock()
	if probed {
		e.works(ClosedEarly)
	}
}

// recover has an endpoint be as if it had never failed.
func (e *Endpoint) recover() {
	e.suspect.Store(false)
	e.health = health{}
}

func (e *Endpoint) readmit() {
	e.health.ejected, e.health.times, e.health.probed = false, 0, false
	p := e.port
	p.forget(e)
	p.reactivate(e.addr)
	e.dropUnused()
}

func (p *port) eject(e *Endpoint) {
	if p.ejected == nil {
		p.ejected = map[netip.AddrPort]*Endpoint{}
	}
	p.ejected[e.addr] = e
	p.all.ejecting.add(p)
	p.reactivate(e.addr)
}

// forget takes an endpoint from those that are ejected.
func (p *port) forget(e *Endpoint) {
	delete(p.ejected, e.addr)
	p.all.ejecting.remove(p, len(p.ejected) == 0)
}

// ejecting are the service ports of which endpoints are ejected. Its lock is taken after that of a port.
type ejecting struct {
	n atomic.Int64 // endpoints of all

	mu    sync.Mutex
	ports map[*port]struct{} // guarded by mu
}

func (e *ejecting) add(p *port) {
	e.n.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ports == nil {
		e.ports = map[*port]struct{}{}
	}
	e.ports[p] = struct{}{}
}

// remove is for one endpoint less, which may have been the last of its service port.
func (e *ejecting) remove(p *port, last bool) {
	e.n.Add(-1)
	if last {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.ports, p)
	}
}

func (e *ejecting) all() []*port {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.ports))
}

// reactivate has the balancers that list an endpoint choose again whom they leave out.
func (p *port) reactivate(at netip.AddrPort) {
	for _, b := range p.balancers {
		if b.rotation.has(at) {
			b.rotation.reactivate()
		}
	}
}

// obey takes over what a policy says of ejection: it is the one by which an endpoint is about to be picked.
func (p *port) obey(policy *service.Policy) {
	p.ejectAfter, p.ejectOn, p.rechecks = policy.EjectAfter, policy.EjectOn, 0
	if p.ejectAfter <= 0 && len(p.ejected) > 0 {
		for _, e := range p.ejected {
			p.all.ejections.tell(e, true)
			e.readmit()
			e.recover()
		}
	}
}

// forgetGone forgets the ejected endpoints that have long not been listed. force: all that are in no use.
func (p *port) forgetGone(force bool) {
	for _, e := range p.ejected {
		if e.lists == 0 && (force || time.Since(e.lastFailure) > forgetAfter) {
			e.readmit()
		}
	}
}

// isTimeout tells a dial that had no answer from one that was refused.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
