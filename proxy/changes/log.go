package changes

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/portald/portald/portal/service"
)

// DefaultSize is how many changes a Log keeps by default.
const DefaultSize = 4096

// A Service may add so many changes a second, and so many at once, before the rest is only counted; so may each kind of
// the node's own. Its share of the log is bounded by it for a while: what others did just before stays.
const (
	perSecond = 2
	atOnce    = 64
)

// mostLimits bounds the Services whose rates are remembered: those that were quiet are forgotten then.
const mostLimits = 4096

// Log keeps the last changes in memory. Safe for concurrent use; no call waits for a reader.
type Log struct {
	mu     sync.Mutex
	ring   []Change
	first  uint64 // the position of the oldest there ever was: what is inherited comes before the first one of its own
	next   uint64 // that of the next
	begun  bool
	limits map[service.Name]*limit
	counts map[Kind]uint64
	wake   chan struct{} // closed at the next change
}

// limit is the rate of one Service or kind, and how many changes were left out.
type limit struct {
	rate *rate.Limiter
	left int
}

// NewLog returns a Log that keeps so many changes.
func NewLog(size int) *Log {
	size = max(size, 1)
	return &Log{
		ring: make([]Change, size), first: uint64(size), next: uint64(size),
		limits: map[service.Name]*limit{}, counts: map[Kind]uint64{}, wake: make(chan struct{}),
	}
}

// Begin has Ports add changes from now on: what was there at the start has not changed.
func (l *Log) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = true
}

// Ports adds what changed of a service port; it is for service.Store.Watch.
func (l *Log) Ports(old, new *service.Port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		return
	}
	for _, c := range Of(old, new, time.Now()) {
		l.add(c)
	}
}

// Add adds a change. A zero time is now.
func (l *Log) Add(c Change) {
	if c.Time.IsZero() {
		c.Time = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(c)
}

func (l *Log) add(c Change) {
	l.counts[c.Kind]++
	if !l.admits(c) {
		return
	}
	l.put(c)
}

// admits tells whether another change may be added of the Service, or of the node's of this kind. The first that may
// tells how many were left out.
func (l *Log) admits(c Change) bool {
	name, of := c.Service.Service(), "the Service"
	if name.Name == "" {
		name.Name, of = string(c.Kind), string(c.Kind) // of no namespace, and so no Service's
	}
	limited := l.limits[name]
	if limited == nil {
		if len(l.limits) >= mostLimits {
			l.forget(c.Time)
		}
		limited = &limit{rate: rate.NewLimiter(perSecond, atOnce)}
		l.limits[name] = limited
	}
	if !limited.rate.AllowN(c.Time, 1) {
		if limited.left++; limited.left == 1 { // told at once: nothing may follow
			l.leaveOut(c, "too many changes of "+of+": what follows is left out for a while")
		}
		return false
	}
	if limited.left > 0 {
		l.leaveOut(c, fmt.Sprintf("%d more changes of %s are left out before this", limited.left, of))
		limited.left = 0
	}
	return true
}

func (l *Log) leaveOut(like Change, what string) {
	l.counts[LeftOut]++
	l.put(Change{Time: like.Time, Kind: LeftOut, Service: like.Service, What: what})
}

// forget forgets the rates of Services that were quiet, or of all.
func (l *Log) forget(now time.Time) {
	for name, of := range l.limits {
		if of.rate.TokensAt(now) >= atOnce {
			delete(l.limits, name)
		}
	}
	if len(l.limits) >= mostLimits {
		clear(l.limits)
	}
}

// sameWithin is how far apart two daemons of a node notice the same change.
const sameWithin = 5 * time.Second

// Inherit adds what a predecessor noticed, in the order of time, as far as there is room. What both have noticed stays
// once. Neither counts nor those who follow see what is inherited.
func (l *Log) Inherit(all []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, _ := l.since(l.first, len(l.ring), nil)
	noticed := map[Change][]time.Time{}
	for _, c := range own {
		at := c.Time
		c.Time = time.Time{}
		noticed[c] = append(noticed[c], at)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(c Change) bool {
		at := c.Time
		c.Time = time.Time{}
		same := func(other time.Time) bool { return at.Sub(other).Abs() <= sameWithin }
		i := slices.IndexFunc(noticed[c], same)
		if i >= 0 {
			noticed[c] = slices.Delete(noticed[c], i, i+1)
		}
		return i >= 0
	})
	all = append(all, own...)
	slices.SortStableFunc(all, func(a, b Change) int { return a.Time.Compare(b.Time) })
	all = all[max(0, len(all)-len(l.ring)):]
	l.first = l.next - uint64(len(all))
	for i, c := range all {
		l.ring[(l.first+uint64(i))%uint64(len(l.ring))] = c
	}
}

func (l *Log) put(c Change) {
	l.ring[l.next%uint64(len(l.ring))] = c
	l.next++
	close(l.wake)
	l.wake = make(chan struct{})
}

// Last returns at most n of the last changes, those that keep admits, the oldest first. A nil keep admits all.
func (l *Log) Last(n int, keep func(*Change) bool) []Change {
	out, _ := l.LastAt(n, keep)
	return out
}

// LastAt is Last, and the position behind them for After.
func (l *Log) LastAt(n int, keep func(*Change) bool) (out []Change, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, _ = l.since(0, n, keep)
	return out, l.next
}

// oldest is the position of the oldest change that is kept.
func (l *Log) oldest() uint64 { return max(l.first, l.next-uint64(len(l.ring))) }

// since returns at most n of the last changes from a position on, and how many of all are gone that were there.
func (l *Log) since(position uint64, n int, keep func(*Change) bool) (out []Change, missed uint64) {
	oldest := l.oldest()
	for p := l.next; p > max(oldest, position) && len(out) < n; p-- {
		if c := &l.ring[(p-1)%uint64(len(l.ring))]; keep == nil || keep(c) {
			out = append(out, *c)
		}
	}
	slices.Reverse(out)
	return out, max(oldest, position) - position
}

// After returns the changes from a position on, 0 for all that are kept, how many of them are gone, the position behind
// them, and a channel that is closed at the next change.
func (l *Log) After(position uint64) (all []Change, missed, next uint64, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if position == 0 {
		position = l.oldest()
	}
	all, missed = l.since(position, len(l.ring), nil)
	return all, missed, l.next, l.wake
}

// Position is that behind the last change.
func (l *Log) Position() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Count returns how many changes of a kind there were, those that were left out too.
func (l *Log) Count(k Kind) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[k]
}
