package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// inheritance is what a predecessor has passed on, until the parts of this daemon take it, and who serves the node: a
// predecessor, this daemon, or a successor. Safe for concurrent use.
type inheritance struct {
	socket string        // of the hand-over; empty: there is none
	begun  chan struct{} // closed: rules may be written
	serves chan struct{} // closed: this daemon serves the node, alone
	other  atomic.Bool   // another daemon does, or may: rules are not this one's to remove

	has      atomic.Bool // something was passed on: rules may stand too
	replaces atomic.Bool // a predecessor still listens at the admin socket
	stored   atomic.Bool // the other daemon has ended, and left what it had
	awaited  atomic.Bool // the other daemon starts once this one has ended

	handing chan struct{} // who hands over, or changes what there is to hand over, has put its one element in
	leaves  bool          // guarded by handing: this daemon is ending, rules no longer lead to it

	mu      sync.Mutex
	order   []*heirloom                    // guarded by mu, as what follows: sockets of fronts; nil for others
	files   map[service.Frontend]*heirloom // the same, by where they listen
	servers map[string]*os.File            // by the address that was asked for
	turns   map[frontName]*userspace.Inherited
	lock    *os.File // the lock of the node, nil for none
}

// heirloom is a socket of a front.
type heirloom struct {
	name  service.PortName
	file  *os.File
	taken bool
	free  time.Time // from when on others may have the proxy port of one that nobody has taken; zero: it is open
}

// heirloomCoolDown is how long a proxy port stays closed to others that no front has gone on with: more than it takes
// until flows are deleted that the kernel still leads there. Unlike the ports of this daemon that cool down, these are
// refused even where no other is free.
const heirloomCoolDown = 10 * time.Second

// frontName is a service port in one family.
type frontName struct {
	name   service.PortName
	family inet.Family
}

func newInheritance(socket string) *inheritance {
	i := &inheritance{
		socket: socket,
		begun:  make(chan struct{}), serves: make(chan struct{}), files: map[service.Frontend]*heirloom{},
		servers: map[string]*os.File{}, turns: map[frontName]*userspace.Inherited{},
		handing: make(chan struct{}, 1),
	}
	i.other.Store(true) // until this daemon knows better
	return i
}

// takeTurn waits until a hand-over that is under way has ended, and keeps others from beginning until endTurn.
func (i *inheritance) takeTurn() { i.handing <- struct{}{} }

func (i *inheritance) endTurn() { <-i.handing }

// begin is called where there is no predecessor.
func (i *inheritance) begin() {
	close(i.begun)
	i.serve()
}

// hasBegun tells whether this daemon has what its predecessor listened at, or there is no predecessor.
func (i *inheritance) hasBegun() bool {
	select {
	case <-i.begun:
		return true
	default:
		return false
	}
}

// abandon is called where this daemon is the last: what it has not taken of a store ends.
func (i *inheritance) abandon() {
	if i.stored.Load() {
		i.other.Store(false)
	}
}

// add takes what a predecessor has passed on.
func (i *inheritance) add(e *handover.Estate) {
	i.has.Store(true)
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, s := range e.Sockets {
		file := os.NewFile(uintptr(e.Files[n]), "socket of the predecessor")
		if s.Kind != handover.Front {
			if s.Kind == handover.NodeLock {
				i.lock = file
			} else {
				i.servers[s.Server] = file
			}
			i.order = append(i.order, nil)
			continue
		}
		h := &heirloom{name: s.Name, file: file}
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
}

func (i *inheritance) turn(name service.PortName, family inet.Family) *userspace.Inherited {
	key := frontName{name, family}
	if i.turns[key] == nil {
		i.turns[key] = &userspace.Inherited{}
	}
	return i.turns[key]
}

// listen implements splice.Options.Listen. A proxy port that another service port had, in either family, stays closed
// to others until the take-over is complete, and for a while if that one has not gone on with it: clients of that one
// are on their way there. A NodePort at a loopback address is whose it is.
func (i *inheritance) listen(name service.PortName, at netip.AddrPort) (splice.Inherited, error) {
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

// front implements userspace.Options.Inherit.
func (i *inheritance) front(name service.PortName, family inet.Family) userspace.Inherited {
	i.mu.Lock()
	defer i.mu.Unlock()
	if turn := i.turns[frontName{name, family}]; turn != nil {
		return *turn
	}
	return userspace.Inherited{}
}

// taken tells of each of the predecessor's sockets whether a front listens there now.
func (i *inheritance) taken() (all []bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.order {
		all = append(all, h != nil && h.taken)
	}
	return all
}

// locked is called with the lock of the node, which this daemon has until it ends or release is called.
func (i *inheritance) locked(lock *os.File) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lock = lock
}

// release gives up the lock of the node: another daemon has it too.
func (i *inheritance) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	_ = i.lock.Close() // it is open, or nil
	i.lock = nil
}

// isOusted tells whether another daemon has begun to serve the node while this one stood still. It costs a system call.
func (i *inheritance) isOusted() bool {
	lock := i.nodeLock()
	return lock != nil && ousted(i.socket, lock)
}

// nodeLock returns the lock of the node, nil for none.
func (i *inheritance) nodeLock() *os.File {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lock
}

// serve is called once this daemon alone serves the node. What nobody has taken is closed.
func (i *inheritance) serve() {
	i.mu.Lock()
	for at, h := range i.files {
		if !h.taken {
			_ = h.file.Close() // nothing is lost with it
			h.free = time.Now().Add(heirloomCoolDown)
		}
		if h.taken || !at.Addr.Addr().IsUnspecified() {
			delete(i.files, at)
		}
	}
	clear(i.turns)
	i.mu.Unlock()
	i.stored.Store(false)
	i.other.Store(false)
	close(i.serves)
}

// whenServing waits until this daemon serves the node. False: ctx has ended first.
func (i *inheritance) whenServing(ctx context.Context) bool {
	select {
	case <-i.serves:
		return true
	case <-ctx.Done():
		return false
	}
}

// afterTakeover has a run wait until this daemon serves the node.
func (i *inheritance) afterTakeover(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !i.whenServing(ctx) {
			return nil
		}
		return run(ctx)
	}
}

// closeServers closes the listeners of the predecessor's servers that nobody has taken, but for those at these
// addresses, which are taken later: they would wait for nobody, and keep others from the port.
func (i *inheritance) closeServers(except ...string) {
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
func (i *inheritance) server(address string) (net.Listener, error) {
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
