package splice

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// Subscribe has the calls of e made from now on, until cancel. A call that is under way may still be made after that.
func (c *Core) Subscribe(e record.Events) (cancel func()) {
	s := &subscription{e}
	c.subscribers.change(func(all []*subscription) []*subscription { return append(all, s) })
	return func() {
		c.subscribers.change(func(all []*subscription) []*subscription {
			return slices.DeleteFunc(all, func(other *subscription) bool { return other == s })
		})
	}
}

type subscription struct{ record.Events }

// subscribers is a list that is replaced as a whole, so that reading it costs one atomic load.
type subscribers struct {
	mu   sync.Mutex // held by change
	list atomic.Pointer[[]*subscription]
}

func (s *subscribers) change(edit func([]*subscription) []*subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := edit(slices.Clone(s.all()))
	s.list.Store(&all)
}

func (s *subscribers) all() []*subscription {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (e *entry) started() {
	for _, s := range e.front.core.subscribers.all() {
		if s.Started != nil {
			s.Started(e.live())
		}
	}
}

// attempted reports the result of an attempt; an empty why: it worked.
func (e *entry) attempted(a record.Attempt, why string, took time.Duration) {
	a.Err, a.Took = why, took
	if e.front.name.Protocol == inet.TCP {
		e.front.core.crashes.Dialled(&a)
	}
	for _, s := range e.front.core.subscribers.all() {
		if s.Attempted != nil {
			s.Attempted(e.live(), a)
		}
	}
}

// observe reports the end, by its record.
func observe(f *Front, r *record.Record) {
	subscribers := f.core.subscribers.all() // before others learn of the end, and subscribe
	f.observer.Observe(r)
	for _, s := range subscribers {
		if s.Ended != nil {
			s.Ended(r)
		}
	}
}
