package service

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Change is the newest state of one service port; Port is nil when it is gone.
type Change struct {
	Name PortName
	Port *Port
}

// Store holds the newest state of every service port and which of them changed since the last Take. Bursts coalesce:
// only the newest state of a port is ever seen, and no queue can overflow. Safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	ports   map[PortName]*Port
	owned   map[Name][]PortName
	changed map[PortName][]time.Time // and when the changes were made at their origin
	unseen  map[PortName]struct{}    // the changed ones that no TakeIf has left
	wake    chan struct{}
	watch   func(old, new *Port) // nil: nobody
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{
		ports:   map[PortName]*Port{},
		owned:   map[Name][]PortName{},
		changed: map[PortName][]time.Time{},
		unseen:  map[PortName]struct{}{},
		wake:    make(chan struct{}, 1),
	}
}

// Watch has each change told as it is made: old is nil for a new port, and new for one that is gone. It is called
// before the first Set; watch must be quick, and not call the Store, which waits for it.
func (s *Store) Watch(watch func(old, new *Port)) { s.watch = watch }

// Set replaces all that one Service has by ports, which the Store owns from then on; none removes the Service. A port
// that is equal to what is stored is no change. Triggered are the times at which the changes were made at their
// origin, as far as the source knows; Take and All return them. Costs O(the Service's own size).
func (s *Store) Set(svc Name, ports []*Port, triggered ...time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	change := func(name PortName, old, new *Port) {
		if s.watch != nil {
			s.watch(old, new)
		}
		s.changed[name] = append(s.changed[name], triggered...)
		s.unseen[name] = struct{}{}
		changed, triggered = true, nil // each time comes out once
	}
	names := make([]PortName, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.Name)
		if old := s.ports[p.Name]; old == nil || !old.Equal(p) {
			s.ports[p.Name] = p
			change(p.Name, old, p)
		}
	}
	for _, name := range s.owned[svc] {
		if !slices.Contains(names, name) {
			old := s.ports[name]
			delete(s.ports, name)
			change(name, old, nil)
		}
	}
	if len(names) == 0 {
		delete(s.owned, svc)
	} else {
		s.owned[svc] = names
	}
	if changed {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Changed receives after a change that no Take has returned yet.
func (s *Store) Changed() <-chan struct{} { return s.wake }

// Pending is the number of service ports changed since the last Take.
func (s *Store) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.changed)
}

// Ports returns every service port, in no order. It changes nothing for Take and All.
func (s *Store) Ports() []*Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.ports))
}

// Port returns a service port, nil if there is none of that name.
func (s *Store) Port(name PortName) *Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ports[name]
}

// Take returns what changed since the last Take, ordered by name, and when the changes were made at their origin.
func (s *Store) Take() (changes []Change, triggered []time.Time) {
	s.mu.Lock()
	changed := s.changed
	s.clear()
	out := make([]Change, 0, len(changed))
	for name, dates := range changed {
		out = append(out, Change{name, s.ports[name]})
		triggered = append(triggered, dates...)
	}
	s.mu.Unlock()
	return inOrder(out, triggered)
}

// TakeIf is Take for the changes that are wanted; the others are left to Take. It asks once about each state of a
// service port, so that what is left costs nothing at the next one. Wanted must not call the Store, which waits for it.
func (s *Store) TakeIf(wanted func(Change) bool) (changes []Change, triggered []time.Time) {
	s.mu.Lock()
	for name := range s.unseen {
		c := Change{name, s.ports[name]}
		if wanted(c) {
			changes, triggered = append(changes, c), append(triggered, s.changed[name]...)
			delete(s.changed, name)
		}
	}
	s.unseen = map[PortName]struct{}{}
	s.mu.Unlock()
	return inOrder(changes, triggered)
}

// All returns every service port, ordered by name, with the times that Take would return, and clears what Take would
// return: a resync begins with it.
func (s *Store) All() (ports []*Port, triggered []time.Time) {
	s.mu.Lock()
	for _, dates := range s.changed {
		triggered = append(triggered, dates...)
	}
	s.clear()
	out := make([]*Port, 0, len(s.ports))
	for _, p := range s.ports {
		out = append(out, p)
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b *Port) int { return a.Name.Compare(b.Name) })
	slices.SortFunc(triggered, time.Time.Compare)
	return out, triggered
}

// Touch has Take return service ports again although nothing of them changed. Those that are gone are left out.
func (s *Store) Touch(names ...PortName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if _, has := s.changed[name]; !has && s.ports[name] != nil {
			s.changed[name] = nil // not unseen: its rules are wanted again
		}
	}
	if len(s.changed) == 0 {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// clear forgets what changed. A cleared map would keep its size, and clearing it again cost that.
func (s *Store) clear() {
	s.changed, s.unseen = map[PortName][]time.Time{}, map[PortName]struct{}{}
}

func inOrder(changes []Change, triggered []time.Time) ([]Change, []time.Time) {
	slices.SortFunc(changes, func(a, b Change) int { return a.Name.Compare(b.Name) })
	slices.SortFunc(triggered, time.Time.Compare)
	return changes, triggered
}
