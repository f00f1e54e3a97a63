package epoll

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice"
)

// engine carries connections on a few event loops. Safe for concurrent use.
type engine struct {
	core    *splice.Core
	account *quota.Account
	loops   []*loop
	memory  *Memory // nil: nobody keeps what it carries
	keeper  Keeper
	next    atomic.Uint32 // spreads fronts over loops
	ports   *sourcePorts
}

// Open returns what splice.New wants: an engine of so many event loops, each of which keeps one of GOMAXPROCS busy or
// nearly so. 0 means one less than GOMAXPROCS. What it carries can be kept by a keeper if it has memory to share.
func Open(loops int, memory *Memory, keeper Keeper) func(*splice.Core) (splice.Engine, error) {
	if loops == 0 {
		loops = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return func(c *splice.Core) (splice.Engine, error) { return open(c, loops, memory, keeper) }
}

func open(c *splice.Core, loops int, memory *Memory, keeper Keeper) (*engine, error) {
	o := c.Options()
	e := &engine{
		core: c, account: o.Account, memory: memory, keeper: keeper, ports: newSourcePorts(o.SourcePorts, o.SpareSource),
	}
	for range loops {
		l, err := newLoop(e)
		if err != nil {
			e.closeLoops()
			return nil, fmt.Errorf("make event loop: %w", err)
		}
		e.loops = append(e.loops, l)
	}
	return e, nil
}

func (e *engine) closeLoops() {
	for _, l := range e.loops {
		l.close()
	}
}

// Run implements Engine.
func (e *engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	stops := make([]bool, len(e.loops))
	for i, l := range e.loops {
		wg.Go(func() { l.run(&stops[i]) })
	}
	<-ctx.Done()
	e.core.CutAll()
	for i, l := range e.loops {
		l.do(func() { stops[i] = true })
	}
	wg.Wait()
	e.core.CutAll() // what was accepted meanwhile
	for e.runQueued() {
	}
	e.closeLoops()
	return nil
}

// runQueued runs what is queued for loops that have stopped. False: there was nothing.
func (e *engine) runQueued() (any bool) {
	for _, l := range e.loops {
		any = l.runQueued() || any
	}
	return any
}

// shortage reports an error of a socket to an endpoint if it means one of this host.
func (e *engine) shortage(err syscall.Errno) splice.Shortage {
	switch err {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM,
		unix.EAGAIN: // no local port left for a UDP socket
		e.core.Options().Warn(err)
		return splice.NoResources
	case unix.EADDRNOTAVAIL: // no local port left towards this endpoint
		e.core.Options().Warn(err)
		return splice.NoPort
	}
	return splice.Enough
}

// lightest is the loop with the fewest connections.
func (e *engine) lightest() *loop {
	best := e.loops[0]
	for _, l := range e.loops[1:] {
		if l.load.Load() < best.load.Load() {
			best = l
		}
	}
	return best
}
