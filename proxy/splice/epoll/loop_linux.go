package epoll

import (
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// bulkTime is how long queued connections are served before the loop looks for events: small exchanges and new
// connections wait this long and one load more. To look for events costs a microsecond, a load of bulk 10 to 300.
const bulkTime = 200 * time.Microsecond

// longIteration bounds an iteration: after a longer one several connections may wait at a listener.
const longIteration = 200 * time.Microsecond

// loop carries the connections and datagrams that it owns, on one goroutine.
type loop struct {
	poller
	stock   stock
	loops   *loops // it is one of
	dialer  *dialer
	keeping *keeping
	load    atomic.Int32 // long-lived connections
	times   *splice.LoopTimes
	probe   probe

	// owned by the loop's goroutine
	quanta    quantumQueue[*conn] // bulk, and others that have more to do than a quantum allows
	migrating []*conn             // to lighter loops
	long      bool                // the last iteration was longer than longIteration
	dgrams    *datagrams          // nil until the first UDP socket
}

// loops are all that an engine has.
type loops struct {
	all  []*loop
	next atomic.Uint32
}

// turn returns the loops one after the other, to spread new connections over them.
func (s *loops) turn() *loop { return s.after(s.next.Add(1), 0) }

// after returns the nth loop after that turn.
func (s *loops) after(turn uint32, n int) *loop { return s.all[(int(turn)+n)%len(s.all)] }

// lightest is the loop with the fewest long-lived connections.
func (s *loops) lightest() *loop {
	best := s.all[0]
	for _, l := range s.all[1:] {
		if l.load.Load() < best.load.Load() {
			best = l
		}
	}
	return best
}

// add makes one more loop.
func (s *loops) add(core *splice.Core, d *dialer, k *keeping) error {
	account := core.Options().Account
	if err := account.Open(pollerDescriptors); err != nil {
		return err
	}
	l := &loop{loops: s, dialer: d, keeping: k, times: core.NewLoopTimes()}
	if err := l.poller.open(core); err != nil {
		account.Close(pollerDescriptors)
		return err
	}
	l.stock.open(&l.poller, account, k)
	s.all = append(s.all, l)
	return nil
}

func (l *loop) close() {
	l.calls.end()
	l.stock.pipes.Close()
	l.poller.close()
	l.stock.account.Close(pollerDescriptors)
}

// run serves until a function that do has queued sets stop. An iteration handles events first, then bulk, then timers.
func (l *loop) run(stop *bool) {
	for !*stop {
		n := l.wait()
		l.now = l.clock()
		l.dispatch(n)
		if l.dgrams != nil {
			l.dgrams.flush()
		}
		l.carryQuanta()
		l.migrate()
		l.expire()
		took := l.clock() - l.now
		l.times.Add(took)
		l.long = took > longIteration
	}
}

// wait waits for events and returns their number.
func (l *loop) wait() int {
	if l.stock.bulk && l.quanta.over() {
		l.stock.bulk = false
		if n := l.yield(); n > 0 {
			return n
		}
	}
	return l.sleep(!l.quanta.empty())
}

// carryQuanta gives queued connections a quantum each, for bulkTime: small exchanges were served before them. A lap may
// take many iterations.
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
			c.carry()
		}
		if l.clock() >= until {
			return
		}
	}
}
