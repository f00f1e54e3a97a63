package dataplane

import (
	"container/heap"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
)

// Reason is why a service port is set aside.
type Reason string

// The reasons. The last two do not change by themselves.
const (
	ByRules    Reason = "rules"    // the writer refuses its portals: its clients are refused, or it has no portals
	ByListener Reason = "listener" // no listener could be opened: its clients are refused
	ByMode     Reason = "mode"     // the daemon does not have the mode that it asks for: its clients are refused
	ByPortal   Reason = "portal"   // rules cannot express some of its portals: those are left out
)

// News is reported of a service port when it is set aside, when it is still set aside after a change or after
// newsPeriod, and when that ends: Err is nil then.
type News struct {
	Name   service.PortName
	Reason Reason
	Err    error
}

// The wait before a service port that was set aside is tried again doubles from the first to the last. A change of it
// ends the wait, except for the throttle.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// suspectTime is how long service ports of a namespace are tried one by one after the writer refused one of them: a
// tenant that writes a bad Service every second must not have the changes of others refused along with it.
const suspectTime = time.Minute

// newsPeriod is when a service port that stays set aside is reported again: the API server keeps events for an hour.
const newsPeriod = 30 * time.Minute

// retryShare bounds the time that goes into tries that are refused, to 1 part in so many: each costs what all portals
// cost, and all other changes wait.
const retryShare = 10

// aside holds the service ports that are set aside, so that all others need not wait for them. They may be thousands,
// if all proxy ports are taken: a round costs what it tries, not what is held.
type aside struct {
	ports     map[service.PortName]*setAside
	waits     waits                // those that will be tried again
	refused   int                  // those with a reason
	suspects  map[string]time.Time // namespaces, until when
	throttled time.Time            // no try before
	wake      chan struct{}
	timer     *time.Timer
}

// setAside is one service port. Without a reason it was not refused, and is queued to be tried by itself.
type setAside struct {
	change   service.Change // the newest
	reason   Reason
	err      error // of the last try
	reported time.Time
	wait     time.Duration
	next     time.Time // when it is tried again; zero: not before it changes
	place    int       // in waits, if next is set
}

func newAside() *aside {
	a := &aside{
		ports: map[service.PortName]*setAside{}, suspects: map[string]time.Time{}, wake: make(chan struct{}, 1),
	}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.wake <- struct{}{}:
		default: // one is pending
		}
	})
	a.timer.Stop()
	return a
}

// filter returns the changes to apply together. It keeps those of service ports that are set aside or suspect, to be
// tried one by one as soon as the throttle allows. Removals are never suspect.
func (a *aside) filter(changes []service.Change) []service.Change {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(changes), func(c service.Change) bool {
		held := a.ports[c.Name]
		switch {
		case held != nil && held.change.Port == c.Port: // unchanged
		case held == nil && !now.Before(a.suspects[c.Name.Namespace]), c.Port == nil:
			return false
		case held == nil:
			a.hold(c, now)
		default:
			held.change = c
			a.postpone(held, now)
		}
		return true
	})
}

// put sets a service port aside, or notes that another try failed. True: that is to be reported.
func (a *aside) put(c service.Change, reason Reason, err error) (news bool) {
	now := time.Now()
	held := a.ports[c.Name]
	if held == nil {
		held = a.hold(c, now)
	}
	if held.reason == "" {
		a.refused++
	}
	news = held.reason != reason || held.change.Port != c.Port || now.Sub(held.reported) >= newsPeriod
	if news {
		held.reported = now
	}
	held.change, held.reason, held.err = c, reason, err
	held.wait = min(max(2*held.wait, firstRetry), lastRetry)
	if reason == ByMode || reason == ByPortal {
		a.postpone(held, time.Time{})
	} else {
		a.postpone(held, now.Add(held.wait))
	}
	if reason == ByRules {
		a.suspects[c.Name.Namespace] = now.Add(suspectTime)
	}
	return news
}

// queue has a service port tried by itself in the next round.
func (a *aside) queue(c service.Change) {
	if a.ports[c.Name] == nil {
		a.hold(c, time.Now())
	}
}

// drop ends setting a service port aside. True: it had been refused.
func (a *aside) drop(name service.PortName) (refused bool) {
	held := a.ports[name]
	if held == nil {
		return false
	}
	delete(a.ports, name)
	a.postpone(held, time.Time{})
	if held.reason == "" {
		return false
	}
	a.refused--
	return true
}

// hold keeps a service port until it is tried.
func (a *aside) hold(c service.Change, until time.Time) *setAside {
	held := &setAside{change: c}
	a.ports[c.Name] = held
	a.postpone(held, until)
	return held
}

// postpone sets when a service port is tried again; zero: never.
func (a *aside) postpone(held *setAside, until time.Time) {
	waited := !held.next.IsZero()
	held.next = until
	switch waits := !until.IsZero(); {
	case waited && waits:
		heap.Fix(&a.waits, held.place)
	case waits:
		heap.Push(&a.waits, held)
	case waited:
		heap.Remove(&a.waits, held.place)
	}
}

// throttle bounds the time that goes into tries, after one that was refused.
func (a *aside) throttle(took time.Duration) { a.throttled = time.Now().Add(took * (retryShare - 1)) }

// keepsPortals tells whether a service port that is gone still has portals, which the writer refuses to remove.
func (a *aside) keepsPortals(c service.Change) bool {
	held := a.ports[c.Name]
	return c.Port == nil && held != nil && held.reason == ByRules && held.change.Port == nil
}

// due returns the change to try at a time, of those whose time has come the one that has waited longest; false: none.
func (a *aside) due(now time.Time) (c service.Change, ok bool) {
	if now.Before(a.throttled) || len(a.waits) == 0 || now.Before(a.waits[0].next) {
		return service.Change{}, false
	}
	return a.waits[0].change, true
}

// schedule sets the timer for the next service port that is due.
func (a *aside) schedule() {
	now := time.Now()
	for namespace, until := range a.suspects {
		if now.After(until) {
			delete(a.suspects, namespace)
		}
	}
	a.timer.Stop()
	if len(a.waits) == 0 {
		return
	}
	next := a.waits[0].next
	if next.Before(a.throttled) {
		next = a.throttled
	}
	a.timer.Reset(max(next.Sub(now), 0))
}

// reset has the service ports that the writer refused tried together with all others, once.
func (a *aside) reset() {
	a.suspects, a.throttled = map[string]time.Time{}, time.Time{}
	for name, held := range a.ports {
		if held.reason == "" || held.reason == ByRules {
			a.drop(name)
		}
	}
}

// waits are the service ports that wait to be tried again, as a heap: the one whose turn is next comes first.
type waits []*setAside

func (w waits) Len() int { return len(w) }

func (w waits) Less(i, j int) bool {
	if d := w[i].next.Compare(w[j].next); d != 0 {
		return d < 0
	}
	return w[i].change.Name.Compare(w[j].change.Name) < 0
}

func (w waits) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

func (w *waits) Push(x any) {
	held := x.(*setAside)
	held.place = len(*w)
	*w = append(*w, held)
}

func (w *waits) Pop() any {
	last := len(*w) - 1
	held := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return held
}
