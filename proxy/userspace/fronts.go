package userspace

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
)

// frontKey is a service port in one address family.
type frontKey struct {
	name   service.PortName
	family inet.Family
}

func keys(name service.PortName) [2]frontKey {
	return [2]frontKey{{name, inet.IPv4}, {name, inet.IPv6}}
}

// front is the listener of one service port in one family, and its balancers.
type front struct {
	*splice.Front // nil: it was not opened yet
	key           frontKey
	balancers     [2]*balance.Balancer    // by service.Scope
	port          uint16                  // the proxy port; 0 = none
	shares        atomic.Pointer[front]   // that listens there, for several fronts; nil: this one does
	sharers       int                     // of a listener that is shared: how many fronts share it
	inUse         bool                    // some portal is to redirect there
	loopback      map[netip.AddrPort]bool // NodePorts at the loopback address; false: the port is taken
	direct        map[netip.AddrPort]struct{}
}

func newFront(key frontKey, endpoints *balance.Endpoints) *front {
	f := &front{key: key, loopback: map[netip.AddrPort]bool{}, direct: map[netip.AddrPort]struct{}{}}
	for scope := range f.balancers {
		f.balancers[scope] = balance.New(endpoints, key.name, balance.Options{})
	}
	return f
}

func (f *front) closeBalancers() {
	for _, b := range f.balancers {
		b.Close()
	}
}

// idle tells whether the front listens nowhere.
func (f *front) idle() bool { return f.port == 0 && len(f.loopback) == 0 && len(f.direct) == 0 }

// frontend returns an address at which the front listens as a frontend.
func (f *front) frontend(at netip.AddrPort) service.Frontend {
	return service.Frontend{Addr: at, Protocol: f.key.name.Protocol}
}

// proxyAddress returns where the front listens when it has a proxy port.
func (f *front) proxyAddress(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(f.key.family.Unspecified(), port)
}

// Fronts has the front of each service port and family. Any goroutine may use it.
type Fronts struct {
	mu    sync.Mutex
	byKey map[frontKey]*front // changed by the Carrier's goroutine alone

	loopbacks loopbackCounts
}

func (all *Fronts) get(key frontKey) *front {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.byKey[key]
}

func (all *Fronts) add(f *front) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byKey[f.key] = f
}

func (all *Fronts) remove(f *front) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byKey, f.key)
}

func (all *Fronts) clone() map[frontKey]*front {
	all.mu.Lock()
	defer all.mu.Unlock()
	return maps.Clone(all.byKey)
}

// Find returns the front of a service port in one family, nil if there is none.
func (all *Fronts) Find(name service.PortName, family inet.Family) *splice.Front {
	if f := all.get(frontKey{name, family}); f != nil {
		return f.Front
	}
	return nil
}

// Bound returns a function that tells which endpoint a client of a service port is bound to by affinity.
func (all *Fronts) Bound(name service.PortName) func(service.Scope, netip.Addr) (netip.AddrPort, bool) {
	return func(scope service.Scope, client netip.Addr) (netip.AddrPort, bool) {
		f := all.get(frontKey{name, inet.FamilyOf(client)})
		if f == nil {
			return netip.AddrPort{}, false
		}
		return f.balancers[scope].Bound(client)
	}
}

// Sharing tells in which families a service port shares its proxy port with others.
func (all *Fronts) Sharing(name service.PortName) (in [2]bool) {
	for _, key := range keys(name) {
		f := all.get(key)
		in[key.family] = f != nil && f.shares.Load() != nil
	}
	return in
}

// Bindings returns how many clients of a service port are bound to each endpoint by affinity.
func (all *Fronts) Bindings(name service.PortName) map[netip.AddrPort]int {
	out := map[netip.AddrPort]int{}
	for _, key := range keys(name) {
		if f := all.get(key); f != nil {
			for _, b := range f.balancers {
				b.AddBound(out)
			}
		}
	}
	return out
}

// Active calls visit with the live connections or sessions of each service port that has any.
func (all *Fronts) Active(visit func(name service.PortName, live int)) {
	live := map[service.PortName]int{}
	all.mu.Lock()
	for key, f := range all.byKey {
		if n := f.Active(); n > 0 {
			live[key.name] += int(n)
		}
	}
	all.mu.Unlock()
	for name, n := range live {
		visit(name, n)
	}
}

// Pause has the TCP sockets at these addresses accept nothing, soon: a successor does.
func (all *Fronts) Pause(at func(netip.AddrPort) bool) {
	for _, f := range all.clone() {
		f.Pause(at)
	}
}

// Resume has all sockets accept and receive again.
func (all *Fronts) Resume() {
	for _, f := range all.clone() {
		f.Resume()
	}
}
