package splicetest

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// ring is the simplest Picker: round robin over a list that can be swapped. It remembers its leases.
type ring struct {
	mu        sync.Mutex
	list      []netip.AddrPort
	turn      int
	affinity  string // of each lease
	exhausted int    // picks for which no endpoint was left
	leases    []*lease
	bounded   bool // further dials are
	budget    int  // if so: how many may fail yet
	own       bool // the first endpoint is the client's own
}

// Pick implements splice.Picker.
func (r *ring) Pick(_ netip.Addr, tried []netip.AddrPort, _ *service.Policy) (splice.Lease, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own && len(tried) < 2 {
		l := &lease{}
		r.leases = append(r.leases, l)
		return splice.Lease{Endpoint: r.list[0], State: l, Affinity: "hit", Again: len(tried) == 0}, true
	}
	for range r.list {
		a := r.list[r.turn%len(r.list)]
		r.turn++
		if !slices.Contains(tried, a) {
			l := &lease{}
			r.leases = append(r.leases, l)
			return splice.Lease{Endpoint: a, Affinity: r.affinity, State: l}, true
		}
	}
	r.exhausted++
	return splice.Lease{}, false
}

// Join implements splice.Picker.
func (r *ring) Join(netip.AddrPort) splice.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &lease{dials: 1}
	r.leases = append(r.leases, l)
	return l
}

// MayRetry implements splice.Picker.
func (r *ring) MayRetry(*service.Policy) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budget--
	return !r.bounded || r.budget >= 0
}

// Retried implements splice.Picker.
func (r *ring) Retried() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budget++
}

func (r *ring) set(list ...netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = list
}

// bind has leases say that affinity bound the client so.
func (r *ring) bind(affinity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.affinity = affinity
}

// keep has the first endpoint be the client's own.
func (r *ring) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = true
}

// bound gives further dials a budget.
func (r *ring) bound(budget int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounded, r.budget = true, budget
}

// restart has the first of the list be next.
func (r *ring) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn = 0
}

// rounds is how often all endpoints had been tried, and a connection had to wait for another round of dials.
func (r *ring) rounds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exhausted
}

// given returns the leases in the order of their picks.
func (r *ring) given() []*lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.leases)
}

// lease is a splice.State of one lease alone, with what was reported.
type lease struct {
	mu       sync.Mutex
	dials    int8 // reports of dials
	ends     int8 // reports of ends
	ok       bool // of the end
	answered bool // a first byte came
	heard    bool // when it came
	early    bool // there was an end without a dial that worked, or a negative time
	dial     error
	crashes  int
}

// Dialled implements splice.State.
func (l *lease) Dialled(err error, took time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials++
	l.dial = err
	l.early = l.early || took < 0
	return false
}

// Answered implements splice.State.
func (l *lease) Answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = l.early || l.dials == 0 || l.dial != nil || l.ends > 0 || l.heard
	l.heard = true
}

// Ended implements splice.State.
func (l *lease) Ended(_ netip.Addr, broken error, firstByte time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends++
	l.ok, l.answered = broken == nil, firstByte >= 0
	l.early = l.early || l.dials == 0 || l.dial != nil
	return false
}

// ClosedEarly implements splice.State: it ejects the endpoint.
func (l *lease) ClosedEarly() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crashes++
	l.early = l.early || l.ends == 0
	return true
}

// crashed is how often it was told that its endpoint crashed.
func (l *lease) crashed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crashes
}

// dialled tells whether the dial had its result.
func (l *lease) dialled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials > 0
}

// wellFormed tells whether the lease was dialled once, and ended once if and only if that worked.
func (l *lease) wellFormed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials == 1 && !l.early && (l.ends == 1) == (l.dial == nil) && l.ends <= 1
}
