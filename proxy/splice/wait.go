package splice

import (
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
)

// DefaultWaiting is how many connections and sessions of one Service may wait for an endpoint where Options set none.
const DefaultWaiting = 1024

// needEvery is the shortest time between two calls of Options.NeedPods for one Service.
const needEvery = 5 * time.Second

// wait is the place of a connection or session in the queue of its Service.
type wait struct {
	of     waiter // nil: a predecessor had it, and it is not in the queue here
	client *holder
	front  *Front
	since  time.Duration // on the core's clock

	// Of its owner.
	took   time.Duration // until an endpoint was reached, or it ended; 0: neither is so
	asleep bool          // of a session: it dials when it has its turn, or the timer fires
	timer  *time.Timer   // of a session

	// Guarded by the queue's mu.
	prev, next  *wait
	queued, due bool
}

// waitQueue is those of a Service that wait for an endpoint, of all its ports and both families, in the order in which
// they came. When there are endpoints they get their turns one after the other: the next one picks once the one before
// it has. What dials keeps its place until it is connected. The zero waitQueue is empty.
type waitQueue struct {
	mu          sync.Mutex
	first, last *wait // guarded by mu, as what follows
	n           int
	due         []*wait // are to have a turn, in this order
	turn        *wait   // has it
	need        time.Duration
	needed      bool // need is when Options.NeedPods was called
}

// enter adds one at its place, and returns the one that is removed if there are more than most now: that which has
// waited the longest, of the client that has the most.
func (q *waitQueue) enter(w *wait, most int) (crowdedOut *wait) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.insert(w)
	if q.n <= most {
		return nil
	}
	crowdedOut = q.first
	for w := q.first; w != nil; w = w.next {
		if w.client.waits > crowdedOut.client.waits {
			crowdedOut = w
		}
	}
	q.remove(crowdedOut)
	return crowdedOut
}

func (q *waitQueue) insert(w *wait) {
	w.queued, w.prev = true, q.last
	for w.prev != nil && w.prev.since > w.since { // a predecessor's
		w.prev = w.prev.prev
	}
	if w.prev == nil {
		w.next, q.first = q.first, w
	} else {
		w.next, w.prev.next = w.prev.next, w
	}
	if w.next == nil {
		q.last = w
	} else {
		w.next.prev = w
	}
	q.n++
	w.client.waits++
}

// leave removes one. It may be called more than once.
func (q *waitQueue) leave(w *wait) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(w)
}

func (q *waitQueue) remove(w *wait) {
	if !w.queued {
		return
	}
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	q.n--
	w.client.waits--
	if q.turn == w {
		q.nextTurn()
	}
}

// wake gives a turn to those of a front.
func (q *waitQueue) wake(f *Front) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.first; w != nil; w = w.next {
		if w.front == f && !w.due {
			w.due = true
			q.due = append(q.due, w)
		}
	}
	if q.turn == nil {
		q.nextTurn()
	}
}

// pass ends the turn of one that has picked.
func (q *waitQueue) pass(w *wait) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turn == w {
		q.nextTurn()
	}
}

func (q *waitQueue) nextTurn() {
	for q.turn = nil; q.turn == nil && len(q.due) > 0; q.due = q.due[1:] {
		w := q.due[0]
		if w.due = false; w.queued {
			q.turn = w
			w.of.endpointsChanged()
		}
	}
	if len(q.due) == 0 {
		q.due = nil
	}
}

func (q *waitQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// tells whether Options.NeedPods is due.
func (q *waitQueue) tells(now time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.needed && now < q.need+needEvery {
		return false
	}
	q.need, q.needed = now, true
	return true
}

// patience is until when it waits for an endpoint that is ready and answers; 0: it does not. Who comes from outside to
// an external frontend with a Local policy does not: other nodes may have an endpoint.
func (f *life) patience() time.Duration {
	most := f.plan.policy.WaitForEndpoint
	if most <= 0 || f.scope == service.NodeScope && f.portal != service.ClusterIP || f.front.closed.Load() {
		return 0
	}
	return f.began + most
}

// holdOut waits for endpoints to change, or, where some have failed, for another round of dials.
func (f *life) holdOut(allTried bool, until, now time.Duration) step {
	if f.retry != nil {
		until = min(until, now+f.retry.again(allTried, len(f.plan.policy.ConnectTimeouts)))
	}
	return step{kind: stepHold, until: until}
}

// queue begins to wait for an endpoint, or goes on with that.
func (f *life) queue(of waiter, client *holder, now time.Duration) {
	f.stage.enter(waiting)
	if old := f.wait; old == nil || old.took > 0 || old.of == nil {
		w := &wait{of: of, client: client, front: f.front, since: now - f.waited()}
		if old != nil && old.took == 0 {
			w.since = old.since
		}
		f.wait = w
		f.front.core.waiting.Add(1)
		if first := f.front.tenant.waits.enter(w, f.front.core.opts.Waiting); first != nil {
			first.of.crowdedOut()
		}
	}
	if p := f.front.present(); !p.hasPods() && f.front.tenant.waits.tells(now) {
		f.front.core.opts.NeedPods(p.Port)
	}
}

// unqueue ends the wait: an endpoint was reached, or the life ends.
func (f *life) unqueue(now time.Duration) {
	w := f.wait
	if w == nil || w.took > 0 {
		return
	}
	w.took = max(now-w.since, 1)
	if w.of == nil {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	f.front.tenant.waits.leave(w)
	f.front.core.waiting.Add(-1)
}

// passTurn lets the next one pick.
func (f *life) passTurn() {
	if f.wait != nil {
		f.front.tenant.waits.pass(f.wait)
	}
}

// isQueued tells whether it waits for an endpoint, or dials after it has.
func (f *life) isQueued() bool { return f.wait != nil && f.wait.took == 0 }

// waited is how long it did, until an endpoint was reached.
func (f *life) waited() time.Duration {
	if f.wait == nil {
		return 0
	}
	return f.wait.took
}

// hasPods tells whether some endpoint of the service port, of either family, is ready or still serves.
func (p *plan) hasPods() bool {
	for _, all := range [][]service.Endpoint{p.Endpoints, p.Port.Endpoints} {
		for i := range all {
			if all[i].Ready || all[i].Serving {
				return true
			}
		}
	}
	return false
}

// Waiting is how many connections and sessions of a Service wait for an endpoint.
func (c *Core) Waiting(name service.Name) int {
	if t := c.account.known(name); t != nil {
		return t.waits.len()
	}
	return 0
}

// Holds tells whether new connections of a service port wait where it has no endpoint.
func (c *Core) Holds(p *service.Port) bool { return p.Policy.Or(*c.policy.Load()).WaitForEndpoint > 0 }
