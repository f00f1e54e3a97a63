// Package goroutine is the engine that runs on every system. It uses package net, one goroutine for each direction of a
// connection, and pipes for bulk where there are such. Package splice decides what a connection does; this package
// executes its steps.
package goroutine

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// Engine implements splice.Engine.
type Engine struct {
	core  *splice.Core
	host  Host
	ctx   context.Context // ends with Run
	stop  context.CancelFunc
	pipes pipes
	turns turns
	live  sync.WaitGroup // connections, sockets, what is called for their owners, and Run itself

	mu      sync.Mutex
	state   state
	sockets map[socket]struct{} // guarded by mu
}

// state is the state of an engine. It only advances.
type state uint8

const (
	serving  state = iota
	stopping       // no connection or session begins
	ended          // and no queued call is made
)

// socket is a listening socket, as far as ending the engine needs it.
type socket interface {
	stop() // no connection or session begins
	end()  // it closes, soon
}

// Open returns a func that makes an Engine, for splice.New.
func Open(host Host) func(*splice.Core) (splice.Engine, error) {
	return func(core *splice.Core) (splice.Engine, error) {
		e := &Engine{core: core, host: host, turns: newTurns(), sockets: map[socket]struct{}{}}
		e.pipes.pool.Account = core.Options().Account
		e.ctx, e.stop = context.WithCancel(context.Background())
		return e, nil
	}
}

// Listen implements splice.Engine.
func (e *Engine) Listen(f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	if f.Name().Protocol == inet.UDP {
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
	e.pipes.close()
	return nil
}

func (e *Engine) enter(s state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = s
}

// Silent implements splice.Engine. Each connection has goroutines of its own, so none can block all others.
func (e *Engine) Silent() time.Duration { return 0 }

// begin counts a connection until e.live.Done. It returns false if the engine accepts no more connections.
func (e *Engine) begin() bool { return e.count(serving) }

// count makes Run wait for e.live.Done. It returns false if the engine is past the given state.
func (e *Engine) count(until state) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state > until {
		return false
	}
	e.live.Add(1)
	return true
}

// start runs a goroutine that Run waits for. It returns false, and runs nothing, if the engine has ended.
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

// network returns the network name of package net for a protocol and the family of an address.
func network(protocol string, addr netip.Addr) string {
	if addr.Is4() {
		return protocol + "4"
	}
	return protocol + "6"
}

// addrOf converts an address of package net; IPv4-mapped addresses become IPv4.
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
