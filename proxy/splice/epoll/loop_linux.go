package epoll

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// eventsAtOnce is how many events one epoll_wait may bring.
const eventsAtOnce = 128

// maxYields is how often in a row a loop with bulk yields its processor before it sleeps. Measured: more gains nothing.
const maxYields = 4

// bulkTime is how long queued connections are served before the loop looks for events: small exchanges and new
// connections wait this long and one load more. To look for events costs a microsecond, a load of bulk 10 to 300.
const bulkTime = 200 * time.Microsecond

// longRound is how long a round takes after which several connections may wait at a listener.
const longRound = 200 * time.Microsecond

// loop is one epoll set and the goroutine that waits on it, which owns what the set watches: handlers and timers need
// no locks. Other goroutines reach it by do and watch.
type loop struct {
	engine *engine
	ep     int
	wakeFd int // an eventfd: work was queued by do
	core   *splice.Core
	load   atomic.Int32 // long-lived connections
	times  *splice.LoopTimes
	probe  probe

	mu    sync.Mutex
	slots []slot
	free  []uint32
	queue []func()
	ended bool // nothing can be queued any more

	// owned by the loop's goroutine
	now       time.Duration // on the core's clock, read once a round
	timers    timers
	quanta    quantumQueue[*conn] // bulk, and others that have more to do than a quantum allows
	long      bool                // the last round was longer than longRound
	migrating []*conn             // to lighter loops
	bulk      bool                // a splice carried something in this round, and the next load is to grow
	pipes     pipePool
	scratch   *[bufferSize]byte

	scratchIndex uint32     // of scratch in the engine's memory
	dgrams       *datagrams // nil until the first UDP socket
	events       [eventsAtOnce]unix.EpollEvent
	batch        [eventsAtOnce]readiness
}

func newLoop(e *engine) (*loop, error) {
	if err := e.account.Open(loopDescriptors); err != nil {
		return nil, err
	}
	l, err := openLoop(e)
	if err != nil {
		e.account.Close(loopDescriptors)
	}
	return l, err
}

// loopDescriptors are the epoll set and the eventfd.
const loopDescriptors = 2

func openLoop(e *engine) (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		sysClose(ep)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	l := &loop{engine: e, ep: ep, wakeFd: wake, core: e.core, times: e.core.NewLoopTimes()}
	l.pipes.l, l.pipes.Account = l, e.account
	l.pipes.Opened, l.pipes.Closed, l.pipes.Usable = e.pipeOpened, e.pipeClosed, e.pipeUsable
	if e.memory != nil {
		l.scratch = e.memory.takeBuffer()
		l.scratchIndex, _ = e.memory.index(l.scratch)
	} else {
		l.scratch = new([bufferSize]byte)
	}
	if _, err := l.watch(wake, unix.EPOLLIN, waker{l}, 0); err != 0 {
		sysClose(wake)
		sysClose(ep)
		return nil, fmt.Errorf("watch eventfd: %w", err)
	}
	return l, nil
}

func (l *loop) close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.pipes.Close()
	sysClose(l.wakeFd)
	sysClose(l.ep)
	l.engine.account.Close(loopDescriptors)
}

// do runs f on the loop's goroutine, soon. False: the loop has ended, and f never runs.
func (l *loop) do(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.queue = append(l.queue, f)
	if len(l.queue) == 1 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		unix.Write(l.wakeFd, one[:]) //nolint:errcheck // an eventfd that is full wakes the loop too
	}
	return true
}

// waker wakes the loop's epoll_wait from another goroutine: it handles the eventfd that do writes to.
type waker struct{ l *loop }

func (w waker) ready(uint32, uint8) {
	var b [8]byte
	unix.Read(w.l.wakeFd, b[:]) //nolint:errcheck // the queue may be empty too
	w.l.runQueued()
}

// runQueued runs what do has queued. False: that was nothing.
func (l *loop) runQueued() bool {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, f := range queue {
		f()
	}
	return len(queue) > 0
}

// run serves until a function that do has queued sets stop.
func (l *loop) run(stop *bool) {
	for !*stop {
		n := l.wait()
		l.now = l.clock()
		for _, r := range l.resolve(n) {
			r.h.ready(r.events, r.tag)
		}
		if l.dgrams != nil {
			l.dgrams.flush()
		}
		l.carryQuanta()
		l.migrate()
		for t := l.timers.due(l.now); t != nil; t = l.timers.due(l.now) {
			t.owner.expired(l.now)
		}
		took := l.clock() - l.now
		l.times.Add(took)
		l.long = took > longRound
	}
}

// wait waits for events and returns their number.
func (l *loop) wait() int {
	if l.bulk && l.quanta.over() {
		l.bulk = false
		if n := l.yield(); n > 0 {
			return n
		}
	}
	return l.sleep()
}

// yield lets other processes have this processor until there are events: the sender goes on sending, the receiver
// receiving, and the next load is larger. To sleep and be woken for each small load costs more, here and at the sender.
// It is for bulk alone: where others take the processor for long, small exchanges would wait for them.
func (l *loop) yield() int {
	for range maxYields {
		sysYield()
		if n, e := sysEpollPoll(l.ep, l.events[:], 0); e == 0 && n > 0 {
			return n
		}
	}
	return 0
}

// sleep waits without telling the Go scheduler: else the loop would lose its P and look for another at every event, at
// the cost of a tenth of the CPU. After some 10 ms without an event sysmon interrupts the wait, and the next one is an
// ordinary blocking system call.
func (l *loop) sleep() int {
	n, e := sysEpollPoll(l.ep, l.events[:], l.pollTimeout())
	if e == unix.EINTR {
		n, e = sysEpollWait(l.ep, l.events[:], l.pollTimeout())
	}
	if e != 0 {
		return 0 // EINTR again: a valid set has no other error
	}
	return n
}

// clock is the present time on the core's clock.
func (l *loop) clock() time.Duration { return l.core.Now() }

// pollTimeout is how long the loop may sleep, in milliseconds rounded up; -1: until an event.
func (l *loop) pollTimeout() int {
	switch {
	case !l.quanta.empty():
		return 0
	case len(l.timers) == 0:
		return -1
	}
	wait := l.timers[0].at - l.clock()
	return int(max(0, (wait+time.Millisecond-1)/time.Millisecond))
}

// carryQuanta gives queued connections a quantum each, for bulkTime: small exchanges were served before them. A lap may
// take many rounds.
func (l *loop) carryQuanta() {
	if l.quanta.empty() {
		return
	}
	l.quanta.begin()
	for until := l.clock() + bulkTime; ; {
		c, ok := l.quanta.take()
		if !ok {
			return
		}
		c.queued = false
		if !c.migrating { // else its next quantum is on another loop
			c.relay()
		}
		if l.clock() >= until {
			return
		}
	}
}
