package service

import (
	"slices"
	"sync"
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
	changed map[PortName]struct{}
	wake    chan struct{}
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{
		ports:   map[PortName]*Port{},
		owned:   map[Name][]PortName{},
		changed: map[PortName]struct{}{},
		wake:    make(chan struct{}, 1),
	}
}

// Set replaces all that one Service has by ports, which the Store owns from then on; none removes the Service. A port
// that is equal to what is stored is no change. Costs O(the Service's own size).
func (s *Store) Set(svc Name, ports []*Port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.changed)
	names := make([]PortName, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.Name)
		if old := s.ports[p.Name]; old == nil || !old.Equal(p) {
			s.ports[p.Name] = p
			s.changed[p.Name] = struct{}{}
		}
	}
	for _, name := range s.owned[svc] {
		if !slices.Contains(names, name) {
			delete(s.ports, name)
			s.changed[name] = struct{}{}
		}
	}
	if len(names) == 0 {
		delete(s.owned, svc)
	} else {
		s.owned[svc] = names
	}
	if len(s.changed) > before {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Changed receives after changes came that no Take has returned yet.
func (s *Store) Changed() <-chan struct{} { return s.wake }

// Pending is the number of service ports changed since the last Take.
func (s *Store) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.changed)
}

// Take returns what changed since the last Take, ordered by name.
func (s *Store) Take() []Change {
	s.mu.Lock()
	changed := s.changed
	s.changed = map[PortName]struct{}{} // a cleared map keeps its size, and clearing it costs that
	out := make([]Change, 0, len(changed))
	for name := range changed {
		out = append(out, Change{name, s.ports[name]})
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Change) int { return a.Name.Compare(b.Name) })
	return out
}

// All returns every service port, ordered by name, and forgets what changed: the start of a resync.
func (s *Store) All() []*Port {
	s.mu.Lock()
	s.changed = map[PortName]struct{}{}
	out := make([]*Port, 0, len(s.ports))
	for _, p := range s.ports {
		out = append(out, p)
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b *Port) int { return a.Name.Compare(b.Name) })
	return out
}
