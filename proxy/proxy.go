// Package proxy keeps the dataplane in step with the desired state: it takes changes from the store and has them
// applied, and everything again when that failed or when others changed what was written. It knows neither where
// services come from nor how traffic is carried.
//
//	loop := &proxy.Loop{Store: store, Dataplane: dataplane, Sweeper: dataplane, Log: log}
//	err := loop.Run(ctx, synced) // a Resync once synced is closed, then a Sync for changes, until ctx ends
//
// After an error the loop resyncs, with a pause that doubles. An Audit finds changes by others: then too it resyncs.
package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/portal/service"
)

// Dataplane carries the traffic of service ports. The reconcile loop is its only caller.
type Dataplane interface {
	// Sync applies changes, at a cost that does not grow with the number of service ports. Failures of single service
	// ports are not returned as errors. After an error only Resync may follow.
	Sync(ctx context.Context, changes []service.Change) error
	// WritesNoRule tells whether a Sync of a change would leave the host's rules as they are. It changes nothing, and
	// the next Sync has exactly the changes for which it was true.
	WritesNoRule(service.Change) bool
	// Resync applies the whole state, whatever was applied before.
	Resync(ctx context.Context, ports []*service.Port) error
	// Audit returns an error if the host no longer has what was applied. It changes nothing.
	Audit(ctx context.Context) error
	// Disturbed tells whether there is a sign that it does not, at next to no cost.
	Disturbed() bool
}

// Sweeper ends what ends without a change: after a time, or once it is unused. The reconcile loop is its only caller.
type Sweeper interface {
	// Sweep ends what is due, and returns when to look again; zero: not before the next Sync or Resync. It costs little
	// when nothing is due. After an error only Resync may follow.
	Sweep(ctx context.Context) (next time.Time, err error)
}

// Watcher observes the loop, for health and metrics. Each func may be nil.
type Watcher struct {
	Queued  func(at time.Time) // a sync or resync begins; called at each try
	Synced  func(Sync)         // it succeeded
	Damaged func(Damage)       // others changed the host's rules, which a resync will make good
}

// Sync describes changes that were applied together, for Watcher.Synced.
type Sync struct {
	Full       bool
	Why        string // when Full, and not the first one
	Start, End time.Time
	Ports      []*service.Port  // all there are, when Full
	Changes    []service.Change // else what changed
	Triggered  []time.Time      // when it changed at its origin, as far as is known
	Waiting    int              // service ports that changed and were not taken: for the next write of rules, or later
}

// Loop is the reconcile loop. Its fields are set before Run.
type Loop struct {
	Store       *service.Store
	Dataplane   Dataplane
	Sweeper     Sweeper
	Log         logrus.FieldLogger
	Watcher     Watcher
	Again       <-chan string   // requests a Resync, and says why; nil = never
	MinSync     time.Duration   // at least this between two syncs that write rules
	Due         <-chan struct{} // requests a Sync, with changes or without; nil = never
	Calls       Calls           // functions to call between two syncs; nil = none
	AuditPeriod time.Duration   // 0 = no audits
	SignPeriod  time.Duration   // between looks for a sign that others changed rules, which prompts an audit; 0 = none

	repairs repairs
}

// The wait after a failure doubles from the first to the last.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Run waits until the source has delivered its state, applies it, and follows changes until ctx ends.
func (l *Loop) Run(ctx context.Context, synced <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-synced:
	}
	l.setDefaults()
	l.resync(ctx, "")
	audit, stop := ticker(l.AuditPeriod)
	defer stop()
	sign, stopSigns := ticker(l.SignPeriod)
	defer stopSigns()
	due, repair := time.NewTimer(0), time.NewTimer(0)
	defer due.Stop()
	defer repair.Stop()
	repair.Stop()
	var rest <-chan time.Time // ends MinSync after rules were written; nil = it has
	for ctx.Err() == nil {
		l.sweep(ctx, due)
		select {
		case <-ctx.Done():
			return nil
		case <-l.Store.Changed():
			l.syncIfAny(ctx, l.takeRuleless)
			if rest == nil && l.syncIfAny(ctx, l.Store.Take) {
				rest = time.After(l.MinSync)
			}
		case <-rest:
			if rest = nil; l.syncIfAny(ctx, l.Store.Take) {
				rest = time.After(l.MinSync)
			}
		case <-l.Due:
			changes, triggered := l.Store.Take()
			l.sync(ctx, changes, triggered)
		case why := <-l.Again:
			l.resync(ctx, why)
		case <-audit:
			l.audit(ctx, repair)
		case <-sign:
			if l.repairs.follow(time.Now()) && l.Dataplane.Disturbed() {
				l.audit(ctx, repair)
			}
		case <-repair.C:
			if l.repairs.waiting { // else it was made good meanwhile
				l.resync(ctx, whyChanged)
			}
		case call := <-l.Calls:
			call()
		case <-due.C: // each iteration begins with a sweep
		}
	}
	return nil
}

func (l *Loop) setDefaults() {
	w := &l.Watcher
	if w.Queued == nil {
		w.Queued = func(time.Time) {}
	}
	if w.Synced == nil {
		w.Synced = func(Sync) {}
	}
	if w.Damaged == nil {
		w.Damaged = func(Damage) {}
	}
}

// takeRuleless takes the changes that need not wait until rules may be written again.
func (l *Loop) takeRuleless() ([]service.Change, []time.Time) {
	return l.Store.TakeIf(l.Dataplane.WritesNoRule)
}

// syncIfAny applies the changes that are taken, and tells whether there were any: a resync may have taken them along.
func (l *Loop) syncIfAny(ctx context.Context, take func() ([]service.Change, []time.Time)) bool {
	changes, triggered := take()
	if len(changes) == 0 {
		return false
	}
	l.sync(ctx, changes, triggered)
	return true
}

// sync applies what changed. After a failure it resyncs.
func (l *Loop) sync(ctx context.Context, changes []service.Change, triggered []time.Time) {
	start := time.Now()
	l.Watcher.Queued(start)
	if err := l.Dataplane.Sync(ctx, changes); err != nil {
		err = fmt.Errorf("sync %d service ports: %w", len(changes), err)
		l.failed(ctx, err, firstRetry)
		l.resync(ctx, whyFailed(err), triggered...)
		return
	}
	l.Watcher.Synced(Sync{
		Start: start, End: time.Now(), Changes: changes, Triggered: triggered, Waiting: l.Store.Pending(),
	})
}

// whyChanged and whyFailed are causes of a Resync, for Sync.Why.
const whyChanged = "others had changed the host's rules"

func whyFailed(err error) string { return "the last try had failed: " + err.Error() }

// resync applies everything, and retries until it succeeds. Triggered are the times of changes that could not be
// applied.
func (l *Loop) resync(ctx context.Context, why string, triggered ...time.Time) {
	retry := backoff.Pause{First: firstRetry, Last: lastRetry}
	for ctx.Err() == nil {
		start := time.Now()
		l.Watcher.Queued(start)
		ports, more := l.Store.All()
		triggered = append(triggered, more...)
		err := l.Dataplane.Resync(ctx, ports)
		if err == nil {
			end := time.Now()
			l.repairs.repaired(end, end.Sub(start))
			l.Watcher.Synced(Sync{Full: true, Why: why, Start: start, End: end, Ports: ports, Triggered: triggered})
			return
		}
		l.failed(ctx, fmt.Errorf("sync all %d service ports: %w", len(ports), err), retry.Next())
	}
}

func (l *Loop) failed(ctx context.Context, err error, retry time.Duration) {
	if ctx.Err() != nil {
		return
	}
	l.Log.WithError(err).Errorf("Sync failed: applying everything again in %s", retry)
	_ = backoff.Sleep(ctx, retry)
}

// audit has everything applied again if others changed the host's rules: at once, or later if that is not the first
// time.
func (l *Loop) audit(ctx context.Context, repair *time.Timer) {
	if l.repairs.waiting {
		return // what it would find is known
	}
	began := time.Now()
	err := l.Dataplane.Audit(ctx)
	now := time.Now()
	l.repairs.audited(now, now.Sub(began))
	if err == nil || ctx.Err() != nil {
		return
	}
	times, wait := l.repairs.damaged(now)
	l.Watcher.Damaged(Damage{err, times, wait})
	if wait > 0 {
		repair.Reset(wait)
		return
	}
	l.resync(ctx, whyChanged)
}

// sweep ends what is due, and sets the timer for the next sweep.
func (l *Loop) sweep(ctx context.Context, due *time.Timer) {
	due.Stop()
	next, err := l.Sweeper.Sweep(ctx)
	for err != nil && ctx.Err() == nil {
		err = fmt.Errorf("sweep: %w", err)
		l.failed(ctx, err, firstRetry)
		l.resync(ctx, whyFailed(err))
		next, err = l.Sweeper.Sweep(ctx)
	}
	if !next.IsZero() {
		due.Reset(time.Until(next))
	}
}

// ticker ticks each period, never when it is 0.
func ticker(period time.Duration) (<-chan time.Time, func()) {
	if period <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(period)
	return t.C, t.Stop
}
