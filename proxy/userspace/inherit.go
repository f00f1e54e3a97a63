package userspace

import (
	"maps"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
)

// Inherited is what a front goes on with that a predecessor had. The zero Inherited is nothing.
type Inherited struct {
	Port   uint16           // the proxy port, if it is free
	Scopes [2]balance.Saved // of the balancers, by service.Scope
}

// Socket is one that a front listens at.
type Socket struct {
	Name service.PortName
	At   netip.AddrPort
	File int // the descriptor, which stays the engine's
}

// Turn is the state of one balancer.
type Turn struct {
	Name   service.PortName
	Family inet.Family
	Scope  service.Scope
	State  balance.Saved
}

// Sockets are those of all fronts. Nothing else may be called meanwhile that opens or closes any.
func (c *Carrier) Sockets() (all []Socket) {
	for key, f := range c.allFronts() {
		for at, file := range f.Files() {
			all = append(all, Socket{key.name, at, file})
		}
	}
	return all
}

// Turns is the state of all balancers, with the clients that were bound or came back within that time; 0: with all.
func (c *Carrier) Turns(within time.Duration) (all []Turn) {
	for key, f := range c.allFronts() {
		for scope, b := range f.balancers {
			if s := b.Save(within); s.Next.IsValid() {
				all = append(all, Turn{key.name, key.family, service.Scope(scope), s})
			}
		}
	}
	return all
}

// RestoreTurn goes on with the state of a balancer that a predecessor had, as far as the service port is carried here.
// Any goroutine may call it.
func (c *Carrier) RestoreTurn(t Turn) {
	c.mu.Lock()
	f := c.fronts[frontKey{t.Name, t.Family}]
	c.mu.Unlock()
	if f != nil && int(t.Scope) < len(f.balancers) {
		f.balancers[t.Scope].Restore(t.State)
	}
}

// Front is the front of a service port in one family, nil if there is none. Any goroutine may call it.
func (c *Carrier) Front(name service.PortName, family inet.Family) *splice.Front {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.fronts[frontKey{name, family}]; f != nil {
		return f.Front
	}
	return nil
}

// Pause has the TCP sockets at these addresses accept nothing, soon: a successor does. Any goroutine may call it.
func (c *Carrier) Pause(at func(netip.AddrPort) bool) {
	for _, f := range c.allFronts() {
		f.Pause(at)
	}
}

// Resume has all sockets accept and receive again. Any goroutine may call it.
func (c *Carrier) Resume() {
	for _, f := range c.allFronts() {
		f.Resume()
	}
}

func (c *Carrier) allFronts() map[frontKey]*front {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.fronts)
}
