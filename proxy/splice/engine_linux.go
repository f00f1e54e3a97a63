package splice

import (
	"context"
	"fmt"
	"slices"
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
	account      *Account
	policy       atomic.Pointer[service.Policy] // the defaults, complete
	start        time.Time                      // of the loops' clocks
	loops        []*loop
	asker        asker
	nextID       atomic.Uint64
	turn         atomic.Uint32 // spreads fronts over loops
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
	Descriptors  int64  // held, pipes and listeners and all
	Pipes        int64  // held
	AcceptErrors uint64 // accepts that failed for want of something, since the start
	UDPDropped   uint64 // datagrams the kernel would not take, since the start
	PortsCrowded uint64 // dials that found most of our ports towards the endpoint in use, since the start: see PortsError
}

// NewEngine returns an Engine that serves once Run is called.
func NewEngine(opts Options) (*Engine, error) {
	opts.setDefaults()
	e := &Engine{
		opts: opts, account: opts.Account, start: time.Now(), ports: newSourcePorts(opts.SourcePorts, opts.SpareSource),
	}
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

// SetPolicy replaces the daemon's defaults, of which zero fields mean DefaultPolicy. Open connections go on as they
// began; the idle timeout of UDP holds for open sessions too. It is not called any more once Run's ctx has ended.
func (e *Engine) SetPolicy(p service.Policy) {
	e.storePolicy(p)
	for _, l := range e.loops {
		l.do(func() {
			for _, u := range handlers[*udpSocket](l) {
				u.sweep(l.now)
			}
		})
	}
}

func (e *Engine) storePolicy(p service.Policy) {
	p = p.Or(DefaultPolicy())
	e.policy.Store(&p)
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

// Drain waits until no TCP connection is left and no UDP session waits for an answer, or ctx ends, and returns how many
// connections are. It waits answerTime at the most for answers, since some protocols have none.
func (e *Engine) Drain(ctx context.Context) int64 {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	answers := time.Now().Add(answerTime)
	for e.conns.Load() > 0 || time.Now().Before(answers) && e.waits(ctx) {
		select {
		case <-ctx.Done():
			return e.conns.Load()
		case <-tick.C:
		}
	}
	return 0
}

// waits tells whether any UDP session waits for an answer that may be under way.
func (e *Engine) waits(ctx context.Context) bool {
	told := make(chan bool, len(e.loops))
	for _, l := range e.loops {
		l.do(func() { told <- slices.ContainsFunc(handlers[*udpSocket](l), (*udpSocket).waits) })
	}
	any := false
	for range e.loops {
		select {
		case <-ctx.Done():
			return false
		case w := <-told:
			any = any || w
		}
	}
	return any
}

// Stats returns current figures.
func (e *Engine) Stats() Stats {
	a := e.account
	return Stats{
		Connections: e.conns.Load(), Sessions: e.sessions.Load(), Descriptors: a.used[descriptors].Load(), Pipes: a.pipes.Load(),
		AcceptErrors: e.acceptErrors.Load(), UDPDropped: e.udpDropped.Load(), PortsCrowded: e.crowded.Load(),
	}
}

// short reports an error of a socket to an endpoint that means a shortage here. True: another endpoint would fail alike.
func (e *Engine) short(err syscall.Errno) bool {
	switch err {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM,
		unix.EAGAIN: // no local port left for a UDP socket
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
