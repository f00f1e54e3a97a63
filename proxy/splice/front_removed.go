package splice

import (
	"context"
	"sync"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// removals finds the connections of endpoints that were removed. Connections are in no list of their endpoint, which
// each would pay for: all are looked through instead, once after many changes.
type removals struct {
	due chan struct{} // has one element while fronts have changed

	mu      sync.Mutex
	changed map[*Front]struct{} // guarded by mu: other endpoints serve since the last look
	closed  map[*Front]struct{} // guarded by mu: closed fronts of which there may be connections
}

func (r *removals) begin() {
	r.due, r.changed, r.closed = make(chan struct{}, 1), map[*Front]struct{}{}, map[*Front]struct{}{}
}

// After a look there is none for lookPause, and for restFactor times what it took: a look at 100,000 connections takes
// some 10 ms of CPU.
const (
	lookPause  = time.Second
	restFactor = 50
)

// note has the connections of a front, and of the fronts that it is the heir of, checked, soon.
func (r *removals) note(f *Front) {
	if f.active.Load() == 0 && !f.inherits.Load() {
		return // one that is being dialled sees for itself: see Conn.established
	}
	r.mu.Lock()
	r.changed[f] = struct{}{}
	r.mu.Unlock()
	select {
	case r.due <- struct{}{}:
	default:
	}
}

func (r *removals) take() map[*Front]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.changed
	r.changed = map[*Front]struct{}{}
	return changed
}

// left keeps a closed front for as long as it has connections: another may serve their endpoints again.
func (r *removals) left(f *Front) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.closed {
		if other.active.Load() == 0 {
			delete(r.closed, other)
		}
	}
	if f.active.Load() > 0 {
		r.closed[f] = struct{}{}
	}
}

// succeeded has the closed fronts of the same service port and family know the new one.
func (r *removals) succeeded(by *Front) {
	family, known := familyOf(by)
	if !known {
		return
	}
	r.mu.Lock()
	for f := range r.closed {
		if is, known := familyOf(f); known && f.name == by.name && is == family {
			f.heir.Store(by)
			by.inherits.Store(true)
		}
	}
	r.mu.Unlock()
	r.note(by)
}

// last is the front that serves now what f did: itself, or the heir of its heirs.
func (f *Front) last() *Front {
	for heir := f.heir.Load(); heir != nil; heir = f.heir.Load() {
		f = heir
	}
	return f
}

// familyOf returns the family of a front's frontends. False: it has none.
func familyOf(f *Front) (inet.Family, bool) {
	if x := f.plan.Load().Exposures; len(x) > 0 {
		return inet.FamilyOf(x[0].Frontend.Addr.Addr()), true
	}
	return 0, false
}

// RetainOnly leaves only these endpoints to a front that is about to be closed, as Retarget does to others.
func (f *Front) RetainOnly(left []service.Endpoint) {
	view := f.plan.Load().View
	view.Endpoints = left
	f.plan.Store(newPlan(&view, f.core.policy.Load()))
	f.core.removals.note(f)
}

// serves tells whether an endpoint of a connection of the front is there, and serves. One that terminates may.
func (f *Front) serves(endpoint service.Endpoint) bool {
	e := f.last().plan.Load().endpoint(endpoint.Addr)
	return e != nil && (e.Ready || e.Serving)
}

// watch looks for connections of removed endpoints, and for dead peers, until ctx ends.
func (r *removals) watch(ctx context.Context, c *Core) {
	silent := time.NewTicker(silentPeriod)
	defer silent.Stop()
	for checked := c.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.due:
			began := c.Now()
			r.check(&c.Registry)
			_ = backoff.Sleep(ctx, max(lookPause, restFactor*(c.Now()-began)))
		case <-silent.C:
			now := c.Now()
			checkSilent(&c.Registry, checked, now)
			checked = now
		}
	}
}

// check tells the connections of changed fronts whose endpoint is gone, or back.
func (r *removals) check(open *Registry) {
	fronts := r.take()
	for m := range open.each {
		if l, is := m.(checkable); is {
			if _, changed := fronts[m.common().front.last()]; changed {
				l.checkEndpoint()
			}
		}
	}
}

// Where no dead-peer timeout is set, the peers of a connection that falls silent are checked once, this long after.
const (
	silentTime   = 2 * time.Minute
	silentPeriod = time.Minute
)

// checkSilent checks the peers of connections that have been silent for silentTime now and were not yet at the last
// look: the kernel retransmits bytes that a peer's host does not acknowledge for a quarter of an hour.
func checkSilent(open *Registry, last, now time.Duration) {
	for m := range open.each {
		if l, is := m.(checkable); is {
			l.checkSilent(last, now)
		}
	}
}
