package userspace

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
)

// Inherited has what a predecessor left to a front. The zero Inherited has nothing.
type Inherited struct {
	Port   uint16           // the proxy port, if it is free
	Scopes [2]balance.Saved // of the balancers, by service.Scope
}

// Socket is one at which a front listens.
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

// Sockets returns the sockets of all fronts. Nothing that opens or closes one may be called meanwhile.
func (all *Fronts) Sockets() (out []Socket) {
	for key, f := range all.clone() {
		for at, file := range f.Files() {
			out = append(out, Socket{key.name, at, file})
		}
	}
	return out
}

// Turns returns the state of all balancers, with the clients that were bound or came back within that time; 0: with
// all.
func (all *Fronts) Turns(within time.Duration) (out []Turn) {
	for key, f := range all.clone() {
		for scope, b := range f.balancers {
			if s := b.Save(within); s.Next.IsValid() {
				out = append(out, Turn{key.name, key.family, service.Scope(scope), s})
			}
		}
	}
	return out
}

// RestoreTurn goes on with the state of a balancer that a predecessor had, as far as the service port is carried here.
func (all *Fronts) RestoreTurn(t Turn) {
	f := all.get(frontKey{t.Name, t.Family})
	if f != nil && int(t.Scope) < len(f.balancers) {
		f.balancers[t.Scope].Restore(t.State)
	}
}
