package succession

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
	"github.com/portald/portald/proxy/userspace"
)

// Inherited keeps the sockets and state that a predecessor has passed on, until the parts of this daemon take them.
// Safe for concurrent use.
type Inherited struct {
	mu      sync.Mutex
	order   []*inheritedSocket                    // guarded by mu, as what follows: sockets of fronts; nil for others
	files   map[service.Frontend]*inheritedSocket // the same, by where they listen
	servers map[string]*os.File                   // by the configured address
	turns   map[frontName]*userspace.Inherited
}

// inheritedSocket is a socket of a front.
type inheritedSocket struct {
	name  service.PortName
	file  *os.File
	taken bool
	free  time.Time // from when on others may have the proxy port of one that nobody has taken; zero: it is open
}

// inheritedCoolDown is how long a proxy port stays closed to others that no front has gone on with: more than it takes
// until flows are deleted that the kernel still leads there. Unlike the ports of this daemon that cool down, these are
// refused even where no other is free.
const inheritedCoolDown = 10 * time.Second

// frontName is a service port in one family.
type frontName struct {
	name   service.PortName
	family inet.Family
}

func newInherited() *Inherited {
	return &Inherited{
		files: map[service.Frontend]*inheritedSocket{}, servers: map[string]*os.File{},
		turns: map[frontName]*userspace.Inherited{},
	}
}

// add takes what a predecessor has passed on, but for the lock of the node, which it returns.
func (i *Inherited) add(e *handover.Inheritance) (lock *os.File) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, s := range e.Sockets {
		file := os.NewFile(uintptr(e.Files[n]), "socket of the predecessor")
		if s.Kind != handover.Front {
			if s.Kind == handover.NodeLock {
				lock = file
			} else {
				i.servers[s.Server] = file
			}
			i.order = append(i.order, nil)
			continue
		}
		h := &inheritedSocket{name: s.Name, file: file}
		i.order = append(i.order, h)
		i.files[service.Frontend{Addr: s.Address, Protocol: s.Name.Protocol}] = h
		if s.Address.Addr().IsUnspecified() {
			i.turn(s.Name, inet.FamilyOf(s.Address.Addr())).Port = s.Address.Port()
		}
	}
	for _, t := range e.Turns {
		if to := i.turn(t.Name, t.Family); int(t.Scope) < len(to.Scopes) {
			saved := &to.Scopes[t.Scope]
			*saved = balance.Saved{Next: t.State.Next, Bindings: append(saved.Bindings, t.State.Bindings...),
				Ejected: append(saved.Ejected, t.State.Ejected...)}
		}
	}
	return lock
}

func (i *Inherited) turn(name service.PortName, family inet.Family) *userspace.Inherited {
	key := frontName{name, family}
	if i.turns[key] == nil {
		i.turns[key] = &userspace.Inherited{}
	}
	return i.turns[key]
}

// Listen implements splice.Options.Listen. A proxy port that another service port had, in either family, stays closed
// to others until the take-over is complete, and for a while if that one has not gone on with it: clients of that one
// are on their way there. A NodePort at a loopback address is whose it is.
func (i *Inherited) Listen(name service.PortName, at netip.AddrPort) (splice.Inherited, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	h := i.files[service.Frontend{Addr: at, Protocol: name.Protocol}]
	other := h
	for _, family := range inet.Families() {
		if other == nil && at.Addr().IsUnspecified() {
			addr := netip.AddrPortFrom(family.Unspecified(), at.Port())
			other = i.files[service.Frontend{Addr: addr, Protocol: name.Protocol}]
		}
	}
	switch {
	case other == nil, !other.free.IsZero() && (other.name == name || time.Now().After(other.free)):
		return splice.Inherited{}, nil
	case h == nil, h.taken, h.name != name && at.Addr().IsUnspecified():
		return splice.Inherited{}, fmt.Errorf("the predecessor's socket of %s: %w", other.name.Label(), syscall.EADDRINUSE)
	}
	h.taken = true
	return splice.Inherited{File: h.file, Paused: name.Protocol == inet.UDP}, nil
}

// Front implements userspace.Options.Inherit.
func (i *Inherited) Front(name service.PortName, family inet.Family) userspace.Inherited {
	i.mu.Lock()
	defer i.mu.Unlock()
	if turn := i.turns[frontName{name, family}]; turn != nil {
		return *turn
	}
	return userspace.Inherited{}
}

// taken tells of each of the predecessor's sockets whether a front listens there now.
func (i *Inherited) taken() (all []bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.order {
		all = append(all, h != nil && h.taken)
	}
	return all
}

// settle is called once the take-over is complete. Sockets that nobody has taken are closed.
func (i *Inherited) settle() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for at, h := range i.files {
		if !h.taken {
			_ = h.file.Close() // nothing is lost with it
			h.free = time.Now().Add(inheritedCoolDown)
		}
		if h.taken || !at.Addr.Addr().IsUnspecified() {
			delete(i.files, at)
		}
	}
	clear(i.turns)
}

// CloseServers closes the listeners of the predecessor's servers that nobody has taken, but for those at these
// addresses, which are taken later: they would wait for nobody, and keep others from the port.
func (i *Inherited) CloseServers(except ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for address, file := range i.servers {
		if !slices.Contains(except, address) {
			_ = file.Close() // nothing is lost with it
			delete(i.servers, address)
		}
	}
}

// server returns the listener that a predecessor had at an address, nil if there is none.
func (i *Inherited) server(address string) (net.Listener, error) {
	i.mu.Lock()
	file := i.servers[address]
	delete(i.servers, address)
	i.mu.Unlock()
	if file == nil {
		return nil, nil
	}
	defer file.Close()
	return net.FileListener(file)
}
