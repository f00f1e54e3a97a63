package splice

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/proxy/service"
)

// tenant is a Service and what it holds.
type tenant struct {
	name  service.Name
	held  [resources]atomic.Int64
	users atomic.Int64 // fronts and clients
	found atomic.Int64 // sessions that it had when heaviest found it
	waits waitQueue

	mu     sync.Mutex
	tables []yielder // guarded by mu: its UDP sockets
}

// yielder is a UDP socket with sessions. yield has it evict some of them, soon.
type yielder interface {
	live() int64
	yield()
}

func (t *tenant) add(y yielder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables = append(t.tables, y)
}

func (t *tenant) remove(y yielder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables = slices.DeleteFunc(t.tables, func(other yielder) bool { return other == y })
}

// yield has the socket with the most sessions evict some.
func (t *tenant) yield() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var most yielder
	for _, y := range t.tables {
		if most == nil || y.live() > most.live() {
			most = y
		}
	}
	if most != nil {
		most.yield()
	}
}

// tenant finds a Service, for a front of it, until leaveTenant.
func (a *Account) tenant(name service.Name) *tenant {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		a.tenants[name] = t
	}
	t.users.Add(1)
	return t
}

// known is a Service that has fronts or clients, nil if it has none.
func (a *Account) known(name service.Name) *tenant {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tenants[name]
}

func (a *Account) leaveTenant(t *tenant) {
	if t.users.Add(-1) > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.users.Load() == 0 && a.tenants[t.name] == t {
		delete(a.tenants, t.name)
	}
}

// holder is a client address of a Service and what it holds.
type holder struct {
	tenant *tenant
	addr   netip.Addr
	held   [resources]atomic.Int64
	users  int // guarded by the shard's mu
	waits  int // in the Service's queue, guarded by that one's mu
}

type clientKey struct {
	tenant *tenant
	addr   netip.Addr
}

// clientShards spread the clients over locks, so that event loops seldom wait for each other.
const clientShards = 64

type clientShard struct {
	mu   sync.Mutex
	held map[clientKey]*holder // guarded by mu
}

func (a *Account) shard(addr netip.Addr) *clientShard {
	b := addr.As16()
	const golden = 0x9e3779b97f4a7c15 // Knuth's multiplicative hash
	return &a.clients[binary.BigEndian.Uint64(b[8:])*golden>>58]
}

// holder finds a client of a Service, for a connection of it, until leaveHolder.
func (a *Account) holder(t *tenant, addr netip.Addr) *holder {
	s, key := a.shard(addr), clientKey{t, addr}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[key]
	if h == nil {
		h = &holder{tenant: t, addr: addr}
		s.held[key] = h
		t.users.Add(1)
	}
	h.users++
	return h
}

func (a *Account) leaveHolder(h *holder) {
	s := a.shard(h.addr)
	s.mu.Lock()
	h.users--
	last := h.users == 0
	if last {
		delete(s.held, clientKey{h.tenant, h.addr})
	}
	s.mu.Unlock()
	if last {
		a.leaveTenant(h.tenant)
	}
}
