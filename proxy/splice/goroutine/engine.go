// Package goroutine is the engine that runs on every system: the net package, a goroutine for each direction of a
// connection, and io.Copy for bulk, which splices where Go does. It knows nothing of what a connection means: that is
// package splice, whose Step it does.
package goroutine

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// Engine implements splice.Engine.
type Engine struct {
	core *splice.Core
	host Host
	ctx  context.Context // ends with Run
	stop context.CancelFunc
	live sync.WaitGroup // connections, sockets, what is called for their owners, and Run itself

	mu      sync.Mutex
	state   state
	sockets map[socket]struct{} // guarded by mu
}

// state is how far the life of an engine has come.
type state uint8

const (
	serving  state = iota
	stopping       // nothing new begins
	ended          // and nothing is called any more
)

// socket is a listening socket as the engine ends.
type socket interface {
	stop() // nothing new begins
	end()  // it closes, soon
}

// Open returns a func that makes an Engine, for splice.New.
func Open(host Host) func(*splice.Core) (splice.Engine, error) {
	return func(core *splice.Core) (splice.Engine, error) {
		e := &Engine{core: core, host: host, sockets: map[socket]struct{}{}}
		e.ctx, e.stop = context.WithCancel(context.Background())
		return e, nil
	}
}

// Listen implements splice.Engine.
func (e *Engine) Listen(f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	if f.Name().Protocol == service.UDP {
		return e.listenUDP(f, at)
	}
	return e.listenTCP(f, at)
}

// Run implements splice.Engine.
func (e *Engine) Run(ctx context.Context) error {
	e.live.Add(1)
	<-ctx.Done()
	e.enter(stopping)
	sockets := e.listening()
	for _, s := range sockets {
		s.stop()
	}
	e.core.CutAll()
	for _, s := range sockets {
		s.end()
	}
	e.stop()
	e.enter(ended)
	e.live.Done()
	e.live.Wait()
	return nil
}

func (e *Engine) enter(s state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = s
}

// Silent implements splice.Engine: no goroutine serves for another, so none can hang for all.
func (e *Engine) Silent() time.Duration { return 0 }

// begin counts a connection, which lives until e.live.Done. False: the engine takes none any more.
func (e *Engine) begin() bool { return e.count(serving) }

// count counts something that lives until e.live.Done, unless the engine's life has come further than the state.
func (e *Engine) count(until state) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state > until {
		return false
	}
	e.live.Add(1)
	return true
}

// start runs a goroutine that Run waits for. False: the engine has ended, and it does not run.
func (e *Engine) start(f func()) bool {
	if !e.count(stopping) {
		return false
	}
	go func() {
		defer e.live.Done()
		f()
	}()
	return true
}

func (e *Engine) add(s socket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sockets[s] = struct{}{}
}

func (e *Engine) remove(s socket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sockets, s)
}

func (e *Engine) listening() []socket {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.sockets))
}

// network is the name that package net has for a protocol in the family of an address.
func network(protocol string, addr netip.Addr) string {
	if addr.Is4() {
		return protocol + "4"
	}
	return protocol + "6"
}

// addrOf is an address of package net as core and records have it.
func addrOf(a net.Addr) netip.AddrPort {
	var at netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		at = a.AddrPort()
	case *net.UDPAddr:
		at = a.AddrPort()
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
