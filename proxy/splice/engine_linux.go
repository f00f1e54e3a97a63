package splice

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// Engine carries connections on a few event loops. Safe for concurrent use.
type Engine struct {
	opts         Options
	policy       atomic.Pointer[service.Policy] // the defaults, complete
	start        time.Time                      // of the loops' clocks
	loops        []*loop
	asker        asker
	nextID       atomic.Uint64
	turn         atomic.Uint32 // spreads fronts over loops
	descriptors  atomic.Int64
	conns        atomic.Int64
	sessions     atomic.Int64
	acceptErrors atomic.Uint64
	udpDropped   atomic.Uint64
	ports        *sourcePorts
	crowded      atomic.Uint64 // dials that PortsError is about
	crowdedTold  seldom
	opaqueTold   seldom
	pulses       pulses
}

// Stats are figures of an Engine at one moment.
type Stats struct {
	Connections  int64  // TCP connections that are open
	Sessions     int64  // UDP sessions that are open
	Descriptors  int64  // sockets held
	AcceptErrors uint64 // accepts that failed for want of something, since the start
	UDPDropped   uint64 // datagrams the kernel would not take, since the start
	PortsCrowded uint64 // dials that found most of our ports towards the endpoint in use, since the start: see PortsError
}

// NewEngine returns an Engine that serves once Run is called.
func NewEngine(opts Options) (*Engine, error) {
	opts.setDefaults()
	e := &Engine{opts: opts, start: time.Now(), ports: newSourcePorts(opts.SourcePorts, opts.SpareSource)}
	e.storePolicy(opts.Policy)
	for range opts.Loops {
		l, err := newLoop(e)
		if err != nil {
			e.closeLoops()
			return nil, fmt.Errorf("make event loop: %w", err)
		}
		e.loops = append(e.loops, l)
	}
	return e, nil
}

func (e *Engine) closeLoops() {
	for _, l := range e.loops {
		l.close()
	}
}

// Run serves until ctx ends, then cuts what is still alive and returns when all of it has ended and was reported.
// It is called once, and no front may be opened after ctx has ended.
func (e *Engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	stops := make([]bool, len(e.loops))
	for i, l := range e.loops {
		wg.Go(func() { l.run(&stops[i]) })
	}
	<-ctx.Done()
	for i, l := range e.loops {
		l.do(func() {
			l.cut()
			stops[i] = true
		})
	}
	wg.Wait()
	e.pulses.end()
	e.asker.end()
	for _, l := range e.loops { // what was handed over meanwhile
		waker{l}.ready(0, 0)
		l.cut()
	}
	e.closeLoops()
	return nil
}

// Drain waits until no TCP connection is left, or ctx ends, and returns how many are.
func (e *Engine) Drain(ctx context.Context) int64 {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for e.conns.Load() > 0 {
		select {
		case <-ctx.Done():
			return e.conns.Load()
		case <-tick.C:
		}
	}
	return 0
}

// Stats returns current figures.
func (e *Engine) Stats() Stats {
	return Stats{e.conns.Load(), e.sessions.Load(), e.descriptors.Load(), e.acceptErrors.Load(), e.udpDropped.Load(), e.crowded.Load()}
}

// reserve takes n descriptors from the engine's share, false if that would be too many. The rest of the process keeps
// what it needs to answer health checks and to write rules.
func (e *Engine) reserve(n int64) bool {
	if held := e.descriptors.Add(n); e.opts.Descriptors > 0 && held > int64(e.opts.Descriptors) {
		e.descriptors.Add(-n)
		return false
	}
	return true
}

func (e *Engine) release(n int64) { e.descriptors.Add(-n) }

// short reports an error of a socket to an endpoint that means a shortage here. True: another endpoint would fail alike.
func (e *Engine) short(err syscall.Errno) bool {
	switch err {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		e.opts.Trouble(err)
		return true
	case unix.EADDRNOTAVAIL: // no local port left towards this endpoint
		e.opts.Trouble(err)
	}
	return false
}

// lightest is the loop with the fewest connections.
func (e *Engine) lightest() *loop {
	best := e.loops[0]
	for _, l := range e.loops[1:] {
		if l.load.Load() < best.load.Load() {
			best = l
		}
	}
	return best
}
