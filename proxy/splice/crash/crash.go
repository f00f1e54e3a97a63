// Package crash finds connections that an endpoint ended because it crashed. The kernel of a process that is killed
// closes its connections by FIN where nothing is unread, so that a crash looks like the end of an answer. It is one if
// the endpoint closed connections in mid-exchange and refuses the next dial:
//
//	s := detector.Closed(endpoint, now, unanswered, owner) // it closed a connection that is open both ways
//	detector.Dialled(&attempt)                             // each dial of any endpoint
//	detector.Ended(s, record)                              // owner.Report is called, now or soon
//
// The record waits until it is known whether the endpoint crashed. The package moves no bytes, and knows neither
// Services nor policies.
package crash

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/record"
)

const (
	// burstTime is within which a crash ends all connections of an endpoint.
	burstTime = 20 * time.Millisecond
	// leastBurst is how many of them make it worth to wait for the next dial: a server that closes behind each answer
	// ends one at a time, or is dialled again at once.
	leastBurst = 3
	// lateTime is how long after a refused dial a close may be noticed that came before it: by another event loop, or on
	// a busy machine.
	lateTime = 100 * time.Millisecond
	// mostSuspects and mostOfOne bound what is open, in all and of one endpoint: none takes the places of the others.
	mostSuspects = 10_000
	mostOfOne    = mostSuspects / 10
)

// nextDialTime is how long it is open whether the endpoint crashed, if it is not dialled. Windows tries a port that
// refuses twice more, half a second apart each, before it says so.
var nextDialTime = time.Second

func init() {
	if runtime.GOOS == "windows" {
		nextDialTime = 3 * time.Second
	}
}

// Detector knows what is open. Safe for concurrent use.
type Detector struct {
	now  func() time.Duration
	open atomic.Int64 // suspects and refusals: where there are none, a dial that worked costs this look alone

	mu       sync.Mutex
	suspects map[netip.AddrPort][]*Suspect    // guarded by mu; of each endpoint, in the order that they were closed
	refusals map[netip.AddrPort]time.Duration // guarded by mu: when an endpoint refused a dial, for lateTime
	sweeping bool                             // guarded by mu: a sweep is due
	ended    bool                             // guarded by mu: nothing is suspected any more
}

// New returns a Detector that uses this clock.
func New(now func() time.Duration) *Detector {
	return &Detector{now: now, suspects: map[netip.AddrPort][]*Suspect{},
		refusals: map[netip.AddrPort]time.Duration{}}
}

// Owner has the connection of a suspect.
type Owner interface {
	// Report reports the record of the connection. It is called once, and must not block.
	Report(r *record.Record, crashed bool)
}

// Suspect is a connection that its endpoint closed in mid-exchange.
type Suspect struct {
	owner      Owner
	at         time.Duration // when it was closed
	unanswered bool          // the client was the last to send

	known   bool           // guarded by mu of the Detector, as is the rest: whether the endpoint crashed
	crashed bool           // it did, as is known
	record  *record.Record // reported once it is known; nil: the connection has not ended
}

// Closed is called when an endpoint closes a connection that is open both ways, in mid-exchange: bytes have moved
// lately, or the client waits for an answer. Nil: nothing is suspected, since there is too much.
func (d *Detector) Closed(endpoint netip.AddrPort, now time.Duration, unanswered bool, owner Owner) *Suspect {
	if d.open.Load() >= mostSuspects {
		return nil
	}
	s := &Suspect{owner: owner, at: now, unanswered: unanswered}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || len(d.suspects[endpoint]) >= mostOfOne {
		return nil
	}
	if at, refused := d.refusals[endpoint]; refused && now-at < lateTime {
		s.known, s.crashed = true, true
		return s
	}
	d.suspects[endpoint] = append(d.suspects[endpoint], s)
	d.open.Add(1)
	d.sweepSoon()
	return s
}

// Owner is who Closed was called by.
func (s *Suspect) Owner() Owner { return s.owner }

// Ended has the record of a suspect reported, now or as soon as it is known whether its endpoint crashed.
func (d *Detector) Ended(s *Suspect, r *record.Record) {
	d.mu.Lock()
	s.record = r
	known := s.known
	d.mu.Unlock()
	if known {
		s.owner.Report(r, s.crashed)
	}
}

// Dialled tells of a dial of an endpoint, which has ended just now: what it closed before is known by that.
func (d *Detector) Dialled(a *record.Attempt) {
	refused := a.Refused()
	if !refused && (a.Err != "" || d.open.Load() == 0) {
		return
	}
	began := d.now()
	if !refused {
		began -= a.Took
	}
	d.decide(func() (all []*Suspect) {
		d.noteRefusal(a.Endpoint, began, refused)
		kept := d.suspects[a.Endpoint][:0]
		for _, s := range d.suspects[a.Endpoint] {
			if s.at > began {
				kept = append(kept, s)
				continue
			}
			s.crashed = refused
			all = append(all, s)
		}
		d.keep(a.Endpoint, kept)
		return all
	})
}

// noteRefusal notes that an endpoint refuses dials, or does not any more. mu is held.
func (d *Detector) noteRefusal(endpoint netip.AddrPort, now time.Duration, refused bool) {
	_, known := d.refusals[endpoint]
	switch {
	case !refused && known:
		delete(d.refusals, endpoint)
		d.open.Add(-1)
	case refused && known:
		d.refusals[endpoint] = now
	case refused && len(d.refusals) < mostSuspects:
		d.refusals[endpoint] = now
		d.open.Add(1)
		d.sweepSoon()
	}
}

// decide has what becomes known by find, which is called with mu held, reported where it has ended.
func (d *Detector) decide(find func() []*Suspect) {
	d.mu.Lock()
	all := find()
	d.open.Add(-int64(len(all)))
	all = slices.DeleteFunc(all, func(s *Suspect) bool {
		s.known = true
		return s.record == nil
	})
	d.mu.Unlock()
	for _, s := range all {
		s.owner.Report(s.record, s.crashed)
	}
}

// keep sets those of an endpoint. mu is held.
func (d *Detector) keep(endpoint netip.AddrPort, all []*Suspect) {
	if len(all) == 0 {
		delete(d.suspects, endpoint)
	} else {
		d.suspects[endpoint] = all
	}
}

// sweepSoon looks at all once burstTime is over. mu is held.
func (d *Detector) sweepSoon() {
	if !d.sweeping && !d.ended {
		d.sweeping = true
		time.AfterFunc(burstTime, func() { d.sweep(d.now()); d.again() })
	}
}

// again goes on with sweeps as long as anything is suspected.
func (d *Detector) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sweeping = false; len(d.suspects)+len(d.refusals) > 0 {
		d.sweepSoon()
	}
}

// sweep lets go of what is not worth to wait for any more: it was closed well, as far as one can know.
func (d *Detector) sweep(now time.Duration) {
	d.decide(func() (well []*Suspect) {
		for endpoint, at := range d.refusals {
			if now >= at+lateTime || d.ended {
				delete(d.refusals, endpoint)
				d.open.Add(-1)
			}
		}
		for endpoint, all := range d.suspects {
			var kept []*Suspect
			for i, s := range all {
				patience := burstTime
				if s.unanswered || inBurst(all, i) {
					patience = nextDialTime
				}
				if now < s.at+patience && !d.ended {
					kept = append(kept, s)
				} else {
					well = append(well, s)
				}
			}
			d.keep(endpoint, kept)
		}
		return well
	})
}

// End has all reported that waits. Nothing is suspected any more.
func (d *Detector) End() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.sweep(d.now())
}

// inBurst tells whether one of these is one of several that were closed at a time.
func inBurst(all []*Suspect, i int) bool {
	for first := max(0, i-leastBurst+1); first <= i && first+leastBurst <= len(all); first++ {
		if all[first+leastBurst-1].at-all[first].at <= burstTime {
			return true
		}
	}
	return false
}
