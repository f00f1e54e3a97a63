package quota

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Rates holds the clients of one front to the limits that its policy sets for each of them and for all together:
// connections or sessions that are open, and new ones a second. It costs nothing where the policy has no such limit.
// Times are on the clock of the data path. Safe for concurrent use. The zero Rates has counted nothing.
type Rates struct {
	all atomic.Int64 // the pace of all clients

	mu     sync.Mutex
	open   map[netip.Addr]int  // guarded by mu: connections or sessions of a client; nil: there are none
	recent map[netip.Addr]pace // guarded by mu: of clients that began one in the last second
	older  map[netip.Addr]pace // guarded by mu: of others that did in the second before
	aging  bool                // guarded by mu: age is about to be called
}

// mostRecent is how many clients each of recent and older has at most. If more begin connections within a second, the
// clients of the longest time ago are forgotten early, and may have another burst: a flood of forged addresses takes no
// more memory than this, and keeps nobody out.
const mostRecent = 1 << 14

// pace is when the next one would be due if a client began connections as evenly as its rate allows: the generic cell
// rate algorithm (ITU-T I.371). Zero is the pace of who has begun none. It is never more than a second ahead, so one
// that nobody has used for a second is as good as zero.
type pace time.Duration

// next is the pace after one more, at a rate of so many a second, with bursts of as many. False: it is one too many.
func (p pace) next(now time.Duration, rate int) (pace, bool) {
	apart := time.Second / time.Duration(rate)
	due := max(time.Duration(p), now)
	return pace(due + apart), due-now <= time.Second-apart
}

// Enter lets a client's connection in if it is within all limits: then the outcome is empty, and placed tells whether
// it counts for its client until Give. all checks the limits of all clients together. A refused connection has taken
// nothing, so that it keeps nobody else out.
func (r *Rates) Enter(
	limits *service.Shares, client netip.Addr, now time.Duration, all func() record.Outcome,
) (placed bool, o record.Outcome) {
	if limits.MaxConnectionsPerClient <= 0 && limits.ConnectionRatePerClient <= 0 {
		return false, all()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if most := limits.MaxConnectionsPerClient; most > 0 && r.open[client] >= most {
		return false, record.OutcomeClientLimit
	}
	var after pace
	if rate := limits.ConnectionRatePerClient; rate > 0 {
		var within bool
		if after, within = r.paceOf(client).next(now, rate); !within {
			return false, record.OutcomeClientRate
		}
	}
	if o := all(); o != "" {
		return false, o
	}
	if limits.MaxConnectionsPerClient > 0 {
		placed = true
		r.take(client)
	}
	if limits.ConnectionRatePerClient > 0 {
		r.note(client, after)
	}
	return placed, ""
}

// Begin counts one more for all clients, at so many a second. False: it is one too many.
func (r *Rates) Begin(now time.Duration, rate int) bool {
	for {
		was := r.all.Load()
		after, within := pace(was).next(now, rate)
		if !within {
			return false
		}
		if r.all.CompareAndSwap(was, int64(after)) {
			return true
		}
	}
}

// TakeBack is for one that Begin has counted at that rate, and that was refused after all.
func (r *Rates) TakeBack(rate int) { r.all.Add(-int64(time.Second) / int64(rate)) }

// Take counts one more that is open for its client, until Give.
func (r *Rates) Take(client netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(client)
}

// take is Take with mu held, as the next two are.
func (r *Rates) take(client netip.Addr) {
	if r.open == nil {
		r.open = map[netip.Addr]int{}
	}
	r.open[client]++
}

func (r *Rates) paceOf(client netip.Addr) pace {
	if p, is := r.recent[client]; is {
		return p
	}
	return r.older[client]
}

// note stores the pace of a client for a second at least, unless too many follow.
func (r *Rates) note(client netip.Addr, p pace) {
	if len(r.recent) >= mostRecent {
		r.turn()
	}
	if r.recent == nil {
		r.recent = map[netip.Addr]pace{}
	}
	r.recent[client] = p
	if !r.aging {
		r.aging = true
		time.AfterFunc(time.Second, r.age)
	}
}

func (r *Rates) turn() { r.older, r.recent = r.recent, nil }

// Give ends what Enter or Take has counted for a client. A map does not shrink, so an empty one is dropped.
func (r *Rates) Give(client netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[client]--; r.open[client] == 0 {
		delete(r.open, client)
	}
	if len(r.open) == 0 {
		r.open = nil
	}
}

// age forgets who has begun nothing for a second, each second until nobody is left.
func (r *Rates) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	if r.aging = r.older != nil; r.aging {
		time.AfterFunc(time.Second, r.age)
	}
}
