package epoll

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// eventsAtOnce is how many events one epoll_wait may bring.
const eventsAtOnce = 128

// turnsGiven is how often in a row a loop with bulk gives way before it sleeps. Measured: more brings nothing.
const turnsGiven = 4

// bulkTime is how long turns of bulk may go on before the loop looks for events: small exchanges and new connections
// wait this long and one load more. To look for events costs a microsecond, a load of bulk 10 to 300.
const bulkTime = 200 * time.Microsecond

// longRound is from when on several may have come to a listener during a round.
const longRound = 200 * time.Microsecond

// Edge-triggered readiness of a stream, asked for once: each stage keeps what it was told.
const streamEvents = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// handler is what a descriptor in a loop belongs to. ready runs on the loop; tag is what watch was given.
type handler interface {
	ready(events uint32, tag uint8)
}

// loop is one epoll instance and the goroutine that waits on it. What it watches is owned by that goroutine: handlers
// and timers need no locks. Others reach it through do, and hand it connections through watch.
type loop struct {
	engine *engine
	ep     int
	wakeFd int // an eventfd: work was queued by do
	core   *splice.Core
	load   atomic.Int32 // settled connections
	pulse  pulse

	mu    sync.Mutex
	slots []slot
	free  []uint32
	queue []func()
	ended bool // nothing is queued any more

	// owned by the loop's goroutine
	now     time.Duration // since the engine's start, read once a round
	timers  timers
	turns   turns[*conn] // bulk, and who has more to do than one turn allows
	long    bool         // the last round took long
	leaving []*conn      // to lighter loops
	bulk    bool         // a splice carried something in this round, and the next load should grow: fewer and larger segments
	pipes   pipePool
	scratch [bufferSize]byte
	dgrams  *datagrams // made at the first UDP front
	events  [eventsAtOnce]unix.EpollEvent
	batch   [eventsAtOnce]readiness
}

type slot struct {
	gen uint16
	tag uint8
	h   handler
}

type readiness struct {
	h      handler
	events uint32
	tag    uint8
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
	l := &loop{engine: e, ep: ep, wakeFd: wake, core: e.core}
	l.pipes.l = l
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
	l.pipes.close()
	sysClose(l.wakeFd)
	sysClose(l.ep)
	l.engine.account.Close(loopDescriptors)
}

// watch has h told of the events of fd. It may be called from any goroutine: the loop owns h from then on. The id is
// for forget.
func (l *loop) watch(fd int, events uint32, h handler, tag uint8) (uint32, syscall.Errno) {
	l.mu.Lock()
	var id uint32
	if n := len(l.free); n > 0 {
		id = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		id = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[id]
	s.h, s.tag = h, tag
	ev := unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(s.gen)}
	l.mu.Unlock()
	e := sysEpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &ev)
	if e != 0 {
		l.forget(id)
	}
	return id, e
}

// forget ends a watch. The descriptor is to be closed or taken out of the epoll set by the caller; events of it that
// are still under way are dropped.
func (l *loop) forget(id uint32) {
	l.mu.Lock()
	s := &l.slots[id]
	s.h = nil
	s.gen++
	l.free = append(l.free, id)
	l.mu.Unlock()
}

// rewatch changes the events of a watch; those that hold already come anew.
func (l *loop) rewatch(fd int, id, events uint32) {
	l.mu.Lock()
	s := &l.slots[id]
	ev := unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(s.gen)}
	l.mu.Unlock()
	sysEpollCtl(l.ep, unix.EPOLL_CTL_MOD, fd, &ev)
}

// unwatch ends a watch of a descriptor that stays open.
func (l *loop) unwatch(fd int, id uint32) {
	sysEpollCtl(l.ep, unix.EPOLL_CTL_DEL, fd, &unix.EpollEvent{})
	l.forget(id)
}

// do runs f on the loop's goroutine, soon. False: the loop has ended.
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

type waker struct{ l *loop }

func (w waker) ready(uint32, uint8) {
	var b [8]byte
	unix.Read(w.l.wakeFd, b[:]) //nolint:errcheck // nothing to read is fine: the queue tells
	w.l.runQueued()
}

// runQueued runs what do has queued. False: there was nothing.
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

// run serves until stop is set by a function that do brought.
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
		l.giveTurns()
		l.handOver()
		for t := l.timers.due(l.now); t != nil; t = l.timers.due(l.now) {
			t.owner.expired(l.now)
		}
		l.long = l.clock()-l.now > longRound
	}
}

// wait returns the number of events that came.
func (l *loop) wait() int {
	if l.bulk && l.turns.over() {
		l.bulk = false
		if n := l.giveWay(); n > 0 {
			return n
		}
	}
	return l.sleep()
}

// giveWay lets whoever else wants this processor have it until there are events: the sender goes on sending, the receiver
// receiving, and the next load is larger. To sleep and be woken for each small load costs more, here and where it comes
// from. Small exchanges are left out: where others take the processor for long, they would wait for those.
func (l *loop) giveWay() int {
	for range turnsGiven {
		sysYield()
		if n, e := sysEpollPoll(l.ep, l.events[:], 0); e == 0 && n > 0 {
			return n
		}
	}
	return 0
}

// sleep waits behind the scheduler's back: telling it costs a processor that is taken away and looked for anew at every
// turn, and so much of sysmon's time. Who holds a processor for some 10 ms without an event is interrupted by sysmon, and
// then waits as one should.
func (l *loop) sleep() int {
	n, e := sysEpollPoll(l.ep, l.events[:], l.patience())
	if e == unix.EINTR {
		n, e = sysEpollWait(l.ep, l.events[:], l.patience())
	}
	if e != 0 {
		return 0 // EINTR again: nothing else can happen to a valid set
	}
	return n
}

// clock is the time since start, read anew.
func (l *loop) clock() time.Duration { return l.core.Now() }

// patience is how long the loop may sleep, in milliseconds rounded up; -1 = until something happens.
func (l *loop) patience() int {
	switch {
	case !l.turns.empty():
		return 0
	case len(l.timers) == 0:
		return -1
	}
	wait := l.timers[0].at - l.clock()
	return int(max(0, (wait+time.Millisecond-1)/time.Millisecond))
}

// resolve turns events into handlers. A slot that was taken anew since is another generation.
func (l *loop) resolve(n int) []readiness {
	out := l.batch[:0]
	l.mu.Lock()
	for _, ev := range l.events[:n] {
		if s := &l.slots[ev.Fd]; s.h != nil && s.gen == uint16(ev.Pad) {
			out = append(out, readiness{s.h, ev.Events, s.tag})
		}
	}
	l.mu.Unlock()
	return out
}

// giveTurns carries bulk for a while, once what is small had its turn at once. A lap may take many rounds.
func (l *loop) giveTurns() {
	if l.turns.empty() {
		return
	}
	l.turns.begin()
	for until := l.clock() + bulkTime; ; {
		c, ok := l.turns.take()
		if !ok {
			return
		}
		c.queued = false
		if !c.leaving { // its next turn is on another loop
			c.relay()
		}
		if l.clock() >= until {
			return
		}
	}
}
