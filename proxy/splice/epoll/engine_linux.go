package epoll

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// engine carries connections on a few event loops. Safe for concurrent use.
type engine struct {
	core    *splice.Core
	loops   loops
	dialer  dialer
	keeping keeping
}

// Open returns what splice.New wants: an engine of so many event loops, each of which keeps one of GOMAXPROCS busy or
// nearly so. 0 means one less than GOMAXPROCS. A keeper can keep its connections if it has memory to share.
func Open(loops int, memory *Memory, keeper Keeper) func(*splice.Core) (splice.Engine, error) {
	if loops == 0 {
		loops = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return func(c *splice.Core) (splice.Engine, error) { return open(c, loops, memory, keeper) }
}

func open(c *splice.Core, loops int, memory *Memory, keeper Keeper) (*engine, error) {
	o := c.Options()
	e := &engine{
		core:    c,
		dialer:  dialer{core: c, ports: newSourcePorts(o.SourcePorts)},
		keeping: keeping{memory: memory, keeper: keeper},
	}
	for range loops {
		if err := e.loops.add(c, &e.dialer, &e.keeping); err != nil {
			e.closeLoops()
			return nil, fmt.Errorf("make event loop: %w", err)
		}
	}
	return e, nil
}

func (e *engine) closeLoops() {
	for _, l := range e.loops.all {
		l.close()
	}
}

// Run implements splice.Engine.
func (e *engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	stops := make([]bool, len(e.loops.all))
	for i, l := range e.loops.all {
		wg.Go(func() { l.run(&stops[i]) })
	}
	<-ctx.Done()
	e.core.CutAll()
	for i, l := range e.loops.all {
		l.do(func() { stops[i] = true })
	}
	wg.Wait()
	e.core.CutAll() // what was accepted meanwhile
	for e.runCalls() {
	}
	e.closeLoops()
	return nil
}

// runCalls calls the functions queued for loops that have stopped. False: there was none.
func (e *engine) runCalls() (any bool) {
	for _, l := range e.loops.all {
		any = l.calls.run() || any
	}
	return any
}

// Silent implements splice.Engine.
func (e *engine) Silent() (longest time.Duration) {
	now := e.core.Now()
	for _, l := range e.loops.all {
		longest = max(longest, l.probe.silent(now, l.do))
	}
	return longest
}

// Settle implements splice.Mover.
func (e *engine) Settle(wg interface {
	Add(int)
	Done()
}) {
	for _, l := range e.loops.all {
		wg.Add(1)
		if !l.do(wg.Done) {
			wg.Done()
		}
	}
}

// Restore implements splice.Mover.
func (e *engine) Restore(f *splice.Front, s *splice.SavedConn, files []int) {
	e.loops.turn().restore(f, s, files, false)
}

// Stand implements splice.Mover.
func (e *engine) Stand(f *splice.Front, s *splice.SavedConn, files []int) splice.Standing {
	c := e.loops.turn().restore(f, s, files, true)
	keep := c.standing.keep
	if s.Broken != nil { // it ends as soon as its rest is delivered, and is reset if this process dies before
		keep = func(tell func(*splice.Kept)) { tell(nil) }
	}
	return splice.Standing{Conn: &c.Conn, Keep: keep, Resume: func() { c.standing.release(s.Broken) }}
}
