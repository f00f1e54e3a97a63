package dataplane

import (
	"container/heap"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// Reason says why a service port is in quarantine.
type Reason string

// The reasons. The last two do not change by themselves.
const (
	ByRules    Reason = "rules"    // the writer refuses its portals: its clients are refused, or it has no portals
	ByListener Reason = "listener" // no listener could be opened: its clients are refused
	ByMode     Reason = "mode"     // the daemon does not have its mode: its clients are refused
	ByPortal   Reason = "portal"   // rules cannot express some of its portals: those are left out
)

// Refusal is reported of a service port when it comes into quarantine, when it is still there after a change or after
// reportPeriod, and when it is released: Err is nil then.
type Refusal struct {
	Name   service.PortName
	Reason Reason
	Err    error
}

// The wait before a service port in quarantine is tried again doubles from the first to the last. A change of it
// ends the wait, except for the throttle.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// suspectTime is how long service ports of a namespace are tried one by one after the writer refused one of them: a
// tenant that writes a bad Service every second must not have the changes of others refused along with it.
const suspectTime = time.Minute

// reportPeriod is when a service port that stays in quarantine is reported again: the API server keeps events for an
// hour.
const reportPeriod = 30 * time.Minute

// retryShare bounds the time that goes into tries that are refused, to 1 part in so many: each costs what all portals
// cost, and all other changes wait.
const retryShare = 10

// quarantine keeps the service ports that the host refuses, so that all others need not wait for them. They may be
// thousands, if all proxy ports are taken: a sync costs what it tries, not what is kept here.
type quarantine struct {
	ports     map[service.PortName]*quarantined
	retries   retryQueue           // those that will be tried again
	refused   int                  // those with a reason
	refusals  int                  // so far
	suspects  map[string]time.Time // namespaces, until when
	throttled time.Time            // no try before
	report    func(Refusal)
	wake      chan struct{}
	timer     *time.Timer
}

// quarantined is one service port. Without a reason it was not refused, and is queued to be tried by itself.
type quarantined struct {
	change   service.Change // the newest
	reason   Reason
	err      error // of the last try
	reported time.Time
	wait     time.Duration
	next     time.Time // when it is tried again; zero: not before it changes
	place    int       // in retries, if next is set
}

func newQuarantine(report func(Refusal)) *quarantine {
	q := &quarantine{
		ports: map[service.PortName]*quarantined{}, suspects: map[string]time.Time{}, report: report,
		wake: make(chan struct{}, 1),
	}
	q.timer = time.AfterFunc(time.Hour, func() {
		select {
		case q.wake <- struct{}{}:
		default: // one is pending
		}
	})
	q.timer.Stop()
	return q
}

// filter returns the changes to apply together. It keeps back changes of service ports that are in quarantine or
// suspect, to be tried one by one as soon as the throttle allows. Removals are never suspect.
func (q *quarantine) filter(changes []service.Change) []service.Change {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(changes), func(c service.Change) bool {
		kept := q.ports[c.Name]
		switch {
		case kept != nil && kept.change.Port == c.Port: // unchanged
		case kept == nil && !now.Before(q.suspects[c.Name.Namespace]), c.Port == nil:
			return false
		case kept == nil:
			q.add(c, now)
		default:
			kept.change = c
			q.postpone(kept, now)
		}
		return true
	})
}

// put takes a service port into quarantine, so that all others go on, or notes that another try failed.
func (q *quarantine) put(c service.Change, reason Reason, err error) {
	q.refusals++
	now := time.Now()
	kept := q.ports[c.Name]
	if kept == nil {
		kept = q.add(c, now)
	}
	if kept.reason == "" {
		q.refused++
	}
	report := kept.reason != reason || kept.change.Port != c.Port || now.Sub(kept.reported) >= reportPeriod
	kept.change, kept.reason, kept.err = c, reason, err
	kept.wait = min(max(2*kept.wait, firstRetry), lastRetry)
	if reason == ByMode || reason == ByPortal {
		q.postpone(kept, time.Time{})
	} else {
		q.postpone(kept, now.Add(kept.wait))
	}
	if reason == ByRules {
		q.suspects[c.Name.Namespace] = now.Add(suspectTime)
	}
	if report {
		kept.reported = now
		q.report(Refusal{c.Name, reason, err})
	}
}

// queue has a service port tried by itself in the next sync.
func (q *quarantine) queue(c service.Change) {
	if q.ports[c.Name] == nil {
		q.add(c, time.Now())
	}
}

// release reports that a service port is served as its Service says, or is gone, if it was refused before.
func (q *quarantine) release(name service.PortName) {
	if q.drop(name) {
		q.report(Refusal{Name: name})
	}
}

// drop takes a service port out of quarantine. True: it had been refused.
func (q *quarantine) drop(name service.PortName) (refused bool) {
	kept := q.ports[name]
	if kept == nil {
		return false
	}
	delete(q.ports, name)
	q.postpone(kept, time.Time{})
	if kept.reason == "" {
		return false
	}
	q.refused--
	return true
}

// add keeps a service port until it is tried.
func (q *quarantine) add(c service.Change, until time.Time) *quarantined {
	kept := &quarantined{change: c}
	q.ports[c.Name] = kept
	q.postpone(kept, until)
	return kept
}

// postpone sets when a service port is tried again; zero: never.
func (q *quarantine) postpone(kept *quarantined, until time.Time) {
	waited := !kept.next.IsZero()
	kept.next = until
	switch waits := !until.IsZero(); {
	case waited && waits:
		heap.Fix(&q.retries, kept.place)
	case waits:
		heap.Push(&q.retries, kept)
	case waited:
		heap.Remove(&q.retries, kept.place)
	}
}

// throttle bounds the time that goes into tries, after one that was refused.
func (q *quarantine) throttle(took time.Duration) {
	q.throttled = time.Now().Add(took * (retryShare - 1))
}

// keepsPortals tells whether a service port that is gone still has portals, which the writer refuses to remove.
func (q *quarantine) keepsPortals(c service.Change) bool {
	kept := q.ports[c.Name]
	return c.Port == nil && kept != nil && kept.reason == ByRules && kept.change.Port == nil
}

// due returns the change to try at a time, of those whose time has come the one that has waited longest; false: none.
func (q *quarantine) due(now time.Time) (c service.Change, ok bool) {
	if now.Before(q.throttled) || len(q.retries) == 0 || now.Before(q.retries[0].next) {
		return service.Change{}, false
	}
	return q.retries[0].change, true
}

// schedule sets the timer for the next service port that is due.
func (q *quarantine) schedule() {
	now := time.Now()
	for namespace, until := range q.suspects {
		if now.After(until) {
			delete(q.suspects, namespace)
		}
	}
	q.timer.Stop()
	if len(q.retries) == 0 {
		return
	}
	next := q.retries[0].next
	if next.Before(q.throttled) {
		next = q.throttled
	}
	q.timer.Reset(max(next.Sub(now), 0))
}

// reset has the service ports that the writer refused tried together with all others, once.
func (q *quarantine) reset() {
	q.suspects, q.throttled = map[string]time.Time{}, time.Time{}
	for name, kept := range q.ports {
		if kept.reason == "" || kept.reason == ByRules {
			q.drop(name)
		}
	}
}

// retryQueue is a heap of the service ports that wait to be tried again: the one whose turn is next comes first.
type retryQueue []*quarantined

func (w retryQueue) Len() int { return len(w) }

func (w retryQueue) Less(i, j int) bool {
	if d := w[i].next.Compare(w[j].next); d != 0 {
		return d < 0
	}
	return w[i].change.Name.Compare(w[j].change.Name) < 0
}

func (w retryQueue) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

func (w *retryQueue) Push(x any) {
	kept := x.(*quarantined)
	kept.place = len(*w)
	*w = append(*w, kept)
}

func (w *retryQueue) Pop() any {
	last := len(*w) - 1
	kept := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return kept
}
