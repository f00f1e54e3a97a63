package goroutine

import (
	"context"
	"sync"

	"github.com/portald/portald/proxy/splice"
)

// shared is the part of an engine that its connections and sockets use: the core and the host, pipes and turns to
// borrow, and a count of all that runs, for the end.
type shared struct {
	core  *splice.Core
	host  Host
	ctx   context.Context // ends with Run
	stop  context.CancelFunc
	pipes pipes
	turns turns
	live  sync.WaitGroup // connections, sockets, calls for their owners, and Run itself

	mu    sync.Mutex
	state state // guarded by mu
}

// state is the state of an engine. It only advances.
type state uint8

const (
	serving  state = iota
	stopping       // no connection or session begins
	ended          // and no queued call is made
)

func (e *shared) enter(s state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = s
}

// begin counts a connection until e.live.Done. It returns false if the engine accepts no more connections.
func (e *shared) begin() bool { return e.count(serving) }

// count makes Run wait for e.live.Done. It returns false if the engine is past the given state.
func (e *shared) count(until state) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state > until {
		return false
	}
	e.live.Add(1)
	return true
}

// start runs a goroutine that Run waits for. It returns false, and runs nothing, if the engine has ended.
func (e *shared) start(f func()) bool {
	if !e.count(stopping) {
		return false
	}
	go func() {
		defer e.live.Done()
		f()
	}()
	return true
}
