package quota

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/waitqueue"
)

// Service is a Service of the API, with what it has taken.
type Service struct {
	share
	Waiting waitqueue.Queue // clients of it that wait for an endpoint

	account *Account
	name    service.Name
	users   atomic.Int64 // fronts and clients

	mu      sync.Mutex
	sockets []Evicter // guarded by mu
}

// Evicter is a UDP socket of a Service, with sessions that it can evict. Safe for concurrent use.
type Evicter interface {
	Len() int64                             // how many it has
	Evict(done func())                      // evicts one or more, soon, and then calls done
	EvictOf(client netip.Addr, done func()) // evicts one or more of a client, soon, and then calls done
}

// AddSocket adds a UDP socket of the Service, until RemoveSocket.
func (s *Service) AddSocket(e Evicter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets = append(s.sockets, e)
}

// RemoveSocket ends what AddSocket began.
func (s *Service) RemoveSocket(e Evicter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets = slices.DeleteFunc(s.sockets, func(other Evicter) bool { return other == e })
}

// evict has the socket with the most sessions evict some.
func (s *Service) evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var most Evicter
	for _, e := range s.sockets {
		if most == nil || e.Len() > most.Len() {
			most = e
		}
	}
	if most != nil {
		most.Evict(s.tell(1))
	}
}

// evictOf has each socket evict sessions of a client.
func (s *Service) evictOf(c *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := c.tell(len(s.sockets))
	for _, e := range s.sockets {
		e.EvictOf(c.address.addr, done)
	}
}

// OpenListener takes a descriptor for a listener, until CloseListener. It may be one of those that connections leave
// free. An error wraps ErrDescriptors.
func (s *Service) OpenListener() error {
	a := s.account
	if err := a.Open(1); err != nil {
		return err
	}
	s.charge(listeners, 1)
	all := a.most[Descriptors]
	if n := s.of.used[listeners].Load(); all > 0 && s.of.left(listeners, float64(all-a.used[Descriptors].Load())) < 0 {
		s.CloseListener()
		return &ShareError{ErrDescriptors, "the listeners of namespace " + s.name.Namespace, n - 1, all}
	}
	return nil
}

// CloseListener gives back what OpenListener took.
func (s *Service) CloseListener() {
	s.charge(listeners, -1)
	s.account.Close(1)
}

// Leave ends what Account.Service began.
func (s *Service) Leave() {
	if s.users.Add(-1) == 0 {
		s.account.services.leave(s)
	}
}

// services are those that have fronts or clients.
type services struct {
	mu         sync.Mutex
	all        map[service.Name]*Service // guarded by mu
	namespaces map[string]*namespace     // guarded by mu
	largest    Largest[Service]
}

// namespace counts what the Services of a namespace have taken together.
type namespace struct {
	share
	users int // Services
}

func (all *services) begin() {
	all.all, all.namespaces = map[service.Name]*Service{}, map[string]*namespace{}
}

// enter finds a Service for one more user, or adds it.
func (all *services) enter(a *Account, name service.Name) *Service {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.all[name]
	if s == nil {
		s = &Service{account: a, name: name, share: share{of: all.enterNamespace(name.Namespace), times: serviceShare}}
		all.all[name] = s
	}
	s.users.Add(1)
	return s
}

func (all *services) known(name service.Name) *Service {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[name]
}

// leave removes a Service, unless it has users again.
func (all *services) leave(s *Service) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.users.Load() == 0 && all.all[s.name] == s {
		delete(all.all, s.name)
		all.leaveNamespace(s.name.Namespace)
	}
}

// enterNamespace finds a namespace, for a Service of it, until leaveNamespace.
func (all *services) enterNamespace(name string) *share {
	n := all.namespaces[name]
	if n == nil {
		n = &namespace{share: share{times: namespaceShare}}
		all.namespaces[name] = n
	}
	n.users++
	return &n.share
}

func (all *services) leaveNamespace(name string) {
	n := all.namespaces[name]
	if n.users--; n.users == 0 {
		delete(all.namespaces, name)
	}
}

// withMostSessions is the Service with the most sessions, nil if none has many.
func (all *services) withMostSessions() *Service {
	return all.largest.Find((*Service).keeps, func(yield func(*Service) bool) {
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, s := range all.all {
			if s.keeps() > fewSessions && !yield(s) {
				return
			}
		}
	})
}
