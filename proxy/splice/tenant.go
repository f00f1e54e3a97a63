package splice

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
)

// namespace is what the Services of one hold together.
type namespace struct {
	share
	users int // Services, guarded by the account's mu
}

// tenant is a Service and what it holds.
type tenant struct {
	share
	name  service.Name
	users atomic.Int64 // fronts and clients
	waits waitQueue

	mu     sync.Mutex
	tables []yielder // guarded by mu: its UDP sockets
}

// yielder is a UDP socket with sessions. yield has it evict one of them or more, soon, yieldOf one of a client. Both
// call done after that.
type yielder interface {
	live() int64
	yield(done func())
	yieldOf(client netip.Addr, done func())
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
		most.yield(t.tell(1))
	}
}

// yieldOf has each socket evict sessions of a client of the Service.
func (t *tenant) yieldOf(h *holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := h.tell(len(t.tables))
	for _, y := range t.tables {
		y.yieldOf(h.client.addr, done)
	}
}

// tenant finds a Service, for a front of it, until leaveTenant.
func (a *Account) tenant(name service.Name) *tenant {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tenants[name]
	if t == nil {
		t = &tenant{name: name, share: share{of: a.enterNamespace(name.Namespace), times: serviceShare}}
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
		a.leaveNamespace(t.name.Namespace)
	}
}

// enterNamespace finds a namespace, for a Service of it, until leaveNamespace.
func (a *Account) enterNamespace(name string) *share {
	n := a.namespaces[name]
	if n == nil {
		n = &namespace{share: share{times: namespaceShare}}
		a.namespaces[name] = n
	}
	n.users++
	return &n.share
}

func (a *Account) leaveNamespace(name string) {
	n := a.namespaces[name]
	if n.users--; n.users == 0 {
		delete(a.namespaces, name)
	}
}
