package epoll

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// eventsAtOnce is how many events one epoll_wait may bring.
const eventsAtOnce = 128

// maxYields is how often in a row a loop with bulk yields its processor before it sleeps. Measured: more gains nothing.
const maxYields = 4

// poller waits for readiness of descriptors, for timers, and for what other goroutines want done. One goroutine waits,
// and handlers and timers run on it: they need no locks. Other goroutines reach it by do and watch alone.
type poller struct {
	core    *splice.Core // its clock
	ep      int
	watches watches
	calls   calls

	now    time.Duration // on the core's clock, read once an iteration
	timers timers
	events [eventsAtOnce]unix.EpollEvent
	batch  [eventsAtOnce]readiness
}

// pollerDescriptors are the epoll set and the eventfd.
const pollerDescriptors = 2

func (p *poller) open(core *splice.Core) error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		sysClose(ep)
		return fmt.Errorf("create eventfd: %w", err)
	}
	p.core, p.ep, p.calls.wakeFd = core, ep, wake
	if _, err := p.watch(wake, unix.EPOLLIN, &p.calls, 0); err != 0 {
		p.close()
		return fmt.Errorf("watch eventfd: %w", err)
	}
	return nil
}

func (p *poller) close() {
	p.calls.end()
	sysClose(p.calls.wakeFd)
	sysClose(p.ep)
}

// do runs f on the poller's goroutine, soon. False: the poller has ended, and f never runs.
func (p *poller) do(f func()) bool { return p.calls.add(f) }

// clock is the present time on the core's clock.
func (p *poller) clock() time.Duration { return p.core.Now() }

// sleep waits for events until a timer is due and returns their number; busy: it does not wait.
//
// It does not tell the Go scheduler: else the loop would lose its P and look for another at every event, at the cost of
// a tenth of the CPU. After some 10 ms without an event sysmon interrupts the wait, and the next one is an ordinary
// blocking system call.
func (p *poller) sleep(busy bool) int {
	n, e := sysEpollPoll(p.ep, p.events[:], p.timeout(busy))
	if e == unix.EINTR {
		n, e = sysEpollWait(p.ep, p.events[:], p.timeout(busy))
	}
	if e != 0 {
		return 0 // EINTR again: a valid set has no other error
	}
	return n
}

// timeout is how long the poller may sleep, in milliseconds rounded up; -1: until an event.
func (p *poller) timeout(busy bool) int {
	switch {
	case busy:
		return 0
	case len(p.timers) == 0:
		return -1
	}
	wait := p.timers[0].at - p.clock()
	return int(max(0, (wait+time.Millisecond-1)/time.Millisecond))
}

// yield lets other processes have this processor until there are events: the sender goes on sending, the receiver
// receiving, and the next load is larger. To sleep and be woken for each small load costs more, here and at the sender.
// It is for bulk alone: where others take the processor for long, small exchanges would wait for them.
func (p *poller) yield() int {
	for range maxYields {
		sysYield()
		if n, e := sysEpollPoll(p.ep, p.events[:], 0); e == 0 && n > 0 {
			return n
		}
	}
	return 0
}

// dispatch calls the handlers of n events.
func (p *poller) dispatch(n int) {
	for _, r := range p.watches.resolve(p.events[:n], p.batch[:0]) {
		r.h.ready(r.events, r.tag)
	}
}

// expire calls the owners of timers that are due.
func (p *poller) expire() {
	for t := p.timers.due(p.now); t != nil; t = p.timers.due(p.now) {
		t.owner.expired(p.now)
	}
}
