package splice

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/record"
)

// fairness is what the clients of a front take of what its policy gives each of them and all together: places and new
// connections or sessions a second. Nothing of it is touched where the policy has no such limit. Times are on the
// core's clock.
type fairness struct {
	all atomic.Int64 // the pace of all clients

	mu     sync.Mutex
	open   map[netip.Addr]int  // guarded by mu: connections or sessions of a client; nil: there are none
	recent map[netip.Addr]pace // guarded by mu: of clients that began one in the last second
	older  map[netip.Addr]pace // guarded by mu: of others that did in the second before
	aging  bool                // guarded by mu: age is about to be called
}

// mostRecent is how many clients each of recent and older has at most. If more begin connections within a second, those
// of the longest time ago are forgotten early, and may have another burst: a flood of forged addresses takes no more
// memory than this, and keeps nobody out.
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

// enter counts a client's connection or session by the limits of its plan. The outcome is empty if it is within all of
// them; else it took nothing, so that who is refused keeps nobody else out.
func (f *life) enter(now time.Duration) record.Outcome {
	p, r := &f.plan.policy.Shares, &f.front.fair
	if p.MaxConnectionsPerClient <= 0 && p.ConnectionRatePerClient <= 0 {
		return f.enterFront(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	client := f.clientAddr()
	if most := p.MaxConnectionsPerClient; most > 0 && r.open[client] >= most {
		return record.OutcomeClientLimit
	}
	var after pace
	if rate := p.ConnectionRatePerClient; rate > 0 {
		var within bool
		if after, within = r.paceOf(client).next(now, rate); !within {
			return record.OutcomeClientRate
		}
	}
	if o := f.enterFront(now); o != "" {
		return o
	}
	if p.MaxConnectionsPerClient > 0 {
		f.placed = true
		r.take(client)
	}
	if p.ConnectionRatePerClient > 0 {
		r.note(client, after)
	}
	return ""
}

// enterFront is enter by the limits for all clients together.
func (f *life) enterFront(now time.Duration) record.Outcome {
	rate := f.plan.policy.Shares.ConnectionRate
	if rate > 0 && !f.front.fair.begin(now, rate) {
		return record.OutcomeRate
	}
	f.counted = true
	if f.front.join(f.plan) {
		return ""
	}
	f.uncount()
	if rate > 0 {
		f.front.fair.all.Add(-int64(time.Second) / int64(rate))
	}
	return record.OutcomeLimit
}

// begin counts one more to the pace of all clients. False: it is one too many.
func (r *fairness) begin(now time.Duration, rate int) bool {
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

// countClient counts the life for its client if its front limits that by now. It is called by the life's owner, for one
// that began before: the limit is for all that are open.
func (f *life) countClient() {
	if f.counted && !f.placed && f.front.present().policy.Shares.MaxConnectionsPerClient > 0 {
		f.placed = true
		r := &f.front.fair
		r.mu.Lock()
		defer r.mu.Unlock()
		r.take(f.clientAddr())
	}
}

// uncountClient ends what enter or countClient counted for the client.
func (f *life) uncountClient() {
	if f.placed {
		f.placed = false
		f.front.fair.give(f.clientAddr())
	}
}

// take adds one that is open. It is called with mu held, as are the next two.
func (r *fairness) take(client netip.Addr) {
	if r.open == nil {
		r.open = map[netip.Addr]int{}
	}
	r.open[client]++
}

func (r *fairness) paceOf(client netip.Addr) pace {
	if p, is := r.recent[client]; is {
		return p
	}
	return r.older[client]
}

// note stores the pace of a client for a second at least, unless too many follow.
func (r *fairness) note(client netip.Addr, p pace) {
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

func (r *fairness) turn() { r.older, r.recent = r.recent, nil }

// give removes one that was open. A map does not shrink, so an empty one is dropped.
func (r *fairness) give(client netip.Addr) {
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
func (r *fairness) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	if r.aging = r.older != nil; r.aging {
		time.AfterFunc(time.Second, r.age)
	}
}

// countClients has all that is open counted for its client, soon, where that is limited by now.
func (c *Core) countClients() {
	for _, m := range c.open() {
		if m.common().front.present().policy.Shares.MaxConnectionsPerClient > 0 {
			m.countSoon()
		}
	}
}
