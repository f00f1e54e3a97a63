package writer

import (
	"math"
	"sync"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Refusals follow the kernel's counters of packets at portals that refuse, one counter a frontend, and report what they
// grow by. A counter begins again at 0 when its rule is written again: what is read before that is not lost. The Writer
// says what it writes; any goroutine may read meanwhile.
type Refusals struct {
	report func(portal.Refused)

	mu    sync.Mutex
	clock uint64 // orders readings and writes; what follows is guarded by mu
	at    map[service.Frontend]*refusal
	new   int // of these, whose counter was not read since it was found on the host
}

// refusal is one counter.
type refusal struct {
	owner   service.PortName
	since   time.Time
	packets uint64 // as read last
	unread  bool   // it was found on the host, and counts what an earlier run may have reported
	changed uint64 // clock at the last reading or write
}

// NewRefusals returns Refusals that follow no counter yet; nil: nobody is told.
func NewRefusals(report func(portal.Refused)) *Refusals {
	if report == nil {
		report = func(portal.Refused) {}
	}
	return &Refusals{report: report, at: map[service.Frontend]*refusal{}}
}

// Any tells whether any counter is followed.
func (r *Refusals) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at) > 0
}

// Unread tells whether there are counters that were found on the host, and not read yet: soon they should be.
func (r *Refusals) Unread() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.new > 0
}

// Wrote says that the counter of a frontend begins at 0, since a rule or element was written.
func (r *Refusals) Wrote(f service.Frontend, owner service.PortName) { r.follow(f, owner, false) }

// Found says that the host has the rule of a frontend, which was not written now. One that is followed goes on.
func (r *Refusals) Found(f service.Frontend, owner service.PortName) { r.follow(f, owner, true) }

func (r *Refusals) follow(f service.Frontend, owner service.PortName, found bool) {
	since, ok := r.begin(f, owner, found)
	if ok {
		r.report(portal.Refused{Owner: owner, Since: since})
	}
}

// begin returns since when the frontend refuses, unless it goes on.
func (r *Refusals) begin(f service.Frontend, owner service.PortName, found bool) (since time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.at[f]
	same := before != nil && before.owner == owner
	r.clock++
	if same && found {
		before.changed = r.clock
		return since, false
	}
	if before != nil && before.unread {
		r.new--
	}
	if found {
		r.new++
	}
	now := &refusal{owner: owner, since: time.Now(), unread: found, changed: r.clock}
	if same {
		now.since = before.since
	}
	r.at[f] = now
	return now.since, !same
}

// Removed says that a frontend has no such rule any more.
func (r *Refusals) Removed(f service.Frontend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(f)
}

func (r *Refusals) remove(f service.Frontend) {
	if old := r.at[f]; old != nil && old.unread {
		r.new--
	}
	delete(r.at, f)
}

// Hold says that the counters of frontends are about to be written again: what is read until then is passed over.
func (r *Refusals) Hold(all []service.Frontend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range all {
		if at := r.at[f]; at != nil {
			at.changed = math.MaxUint64
		}
	}
}

// Retain removes all frontends but those that are wanted.
func (r *Refusals) Retain(wanted func(service.Frontend) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.at {
		if !wanted(f) {
			r.remove(f)
		}
	}
}

// Begin begins a reading of counters.
func (r *Refusals) Begin() *Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return &Reading{r, r.clock}
}

// Reading is one look at the counters.
type Reading struct {
	of    *Refusals
	began uint64
}

// Add takes in what a counter was during the reading. One that was read or written since is newer: it is passed over.
func (n *Reading) Add(f service.Frontend, packets uint64) {
	if more := n.grown(f, packets); more.Packets > 0 {
		n.of.report(more)
	}
}

func (n *Reading) grown(f service.Frontend, packets uint64) (more portal.Refused) {
	r := n.of
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.at[f]
	if at == nil || at.changed > n.began {
		return more
	}
	before := at.packets
	if at.unread {
		before = packets
		at.unread = false
		r.new--
	} else if packets < before { // somebody else has set it to 0
		before = 0
	}
	r.clock++
	at.packets, at.changed = packets, r.clock
	return portal.Refused{Owner: at.owner, Packets: packets - before, Since: at.since}
}
