package dataplane

import (
	"cmp"
	"slices"
	"time"

	"github.com/portald/portald/proxy/service"
)

// Reason says why a service port is set aside.
type Reason string

// The reasons. The last two do not change by themselves.
const (
	ByRules    Reason = "rules"    // the writer refuses its portals: its clients are refused, or not led anywhere
	ByListener Reason = "listener" // no listener could be had: its clients are refused
	ByMode     Reason = "mode"     // the daemon has not the mode that it asks for: its clients are refused
	ByPortal   Reason = "portal"   // some of its portals no rule can express: those are left out
)

// Reasons are all of them.
func Reasons() []Reason { return []Reason{ByRules, ByListener, ByMode, ByPortal} }

// News is of a service port that was set aside, or changed and is again, or is for long; or that is not any more, Err being
// nil.
type News struct {
	Name   service.PortName
	Reason Reason
	Err    error
}

// How long it takes until a service port that was set aside is tried again. A change of it has it tried at once, as far
// as the pace allows.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// suspicion is how long service ports of a namespace are tried one by one after a writer refused one of them: who may
// write one bad Service a second must not have everybody's changes refused along with it.
const suspicion = time.Minute

// retold is when what stays set aside is news again: events are forgotten after an hour.
const retold = 30 * time.Minute

// share is the part of the time that may go into tries that are refused, as 1 in so many: each costs what all portals
// cost, and everybody waits.
const share = 10

// aside is the service ports that are set aside: apart from all others, which do not wait for them.
type aside struct {
	ports    map[service.PortName]*setAside
	suspects map[string]time.Time // namespaces, until when
	pace     time.Time            // no try before
	wake     chan struct{}
	timer    *time.Timer
}

// setAside is one. Without a reason it only waits for its turn.
type setAside struct {
	change service.Change // the newest
	reason Reason
	told   time.Time
	wait   time.Duration
	next   time.Time // when it is tried again; zero: not before it changes
}

func newAside() *aside {
	a := &aside{ports: map[service.PortName]*setAside{}, suspects: map[string]time.Time{}, wake: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.wake <- struct{}{}:
		default: // it was not heard yet
		}
	})
	a.timer.Stop()
	return a
}

// sift returns the changes to apply together. It puts aside those of service ports that are there already or are suspect,
// to be tried as soon as the pace allows. What is gone can do no harm.
func (a *aside) sift(changes []service.Change) []service.Change {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(changes), func(c service.Change) bool {
		held := a.ports[c.Name]
		switch {
		case held != nil && held.change.Port == c.Port: // no news
		case held == nil && !now.Before(a.suspects[c.Name.Namespace]), c.Port == nil:
			return false
		case held == nil:
			a.ports[c.Name] = &setAside{change: c, next: now}
		default:
			held.change, held.next = c, now
		}
		return true
	})
}

// put sets one aside, or notes that it was tried in vain. True: that is news.
func (a *aside) put(c service.Change, reason Reason) (news bool) {
	held := a.ports[c.Name]
	if held == nil {
		held = &setAside{}
		a.ports[c.Name] = held
	}
	now := time.Now()
	if news = held.reason != reason || held.change.Port != c.Port || now.Sub(held.told) >= retold; news {
		held.told = now
	}
	held.change, held.reason = c, reason
	held.wait = min(max(2*held.wait, firstRetry), lastRetry)
	held.next = now.Add(held.wait)
	if reason == ByMode || reason == ByPortal {
		held.next = time.Time{}
	}
	if reason == ByRules {
		a.suspects[c.Name.Namespace] = now.Add(suspicion)
	}
	return news
}

// queue has one wait for its turn.
func (a *aside) queue(c service.Change) {
	if a.ports[c.Name] == nil {
		a.ports[c.Name] = &setAside{change: c, next: time.Now()}
	}
}

// drop takes one back. True: it had been refused.
func (a *aside) drop(name service.PortName) (refused bool) {
	held := a.ports[name]
	delete(a.ports, name)
	return held != nil && held.reason != ""
}

// spent notes how long a try took that was in vain.
func (a *aside) spent(took time.Duration) { a.pace = time.Now().Add(took * (share - 1)) }

// stays tells whether a service port that is gone has portals still: the writer refuses to take them away.
func (a *aside) stays(c service.Change) bool {
	held := a.ports[c.Name]
	return c.Port == nil && held != nil && held.reason == ByRules && held.change.Port == nil
}

// due are the changes to try now, those that wait longest first.
func (a *aside) due() []service.Change {
	now := time.Now()
	if now.Before(a.pace) {
		return nil
	}
	var all []*setAside
	for _, held := range a.ports {
		if !held.next.IsZero() && !now.Before(held.next) {
			all = append(all, held)
		}
	}
	slices.SortFunc(all, func(x, y *setAside) int {
		return cmp.Or(x.next.Compare(y.next), x.change.Name.Compare(y.change.Name))
	})
	var out []service.Change
	for _, held := range all {
		out = append(out, held.change)
	}
	return out
}

// rest has the alarm ring when the next one is due.
func (a *aside) rest() {
	now := time.Now()
	for namespace, until := range a.suspects {
		if now.After(until) {
			delete(a.suspects, namespace)
		}
	}
	var next time.Time
	for _, held := range a.ports {
		if !held.next.IsZero() && (next.IsZero() || held.next.Before(next)) {
			next = held.next
		}
	}
	a.timer.Stop()
	if next.IsZero() {
		return
	}
	if next.Before(a.pace) {
		next = a.pace
	}
	a.timer.Reset(max(next.Sub(now), 0))
}

// pardon has everything tried with everything else, once.
func (a *aside) pardon() {
	a.suspects, a.pace = map[string]time.Time{}, time.Time{}
	for name, held := range a.ports {
		if held.reason == "" || held.reason == ByRules {
			delete(a.ports, name)
		}
	}
}

// refused is how many are set aside.
func (a *aside) refused() (n int) {
	for _, held := range a.ports {
		if held.reason != "" {
			n++
		}
	}
	return n
}
