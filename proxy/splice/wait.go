package splice

import (
	"math"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/waitqueue"
)

// wait is the place of a connection or session in the queue of its Service. Its owner keeps it.
type wait struct {
	place  waitqueue.Place // Of is nil: a predecessor had it, and it is not in the queue here
	took   time.Duration   // until an endpoint was reached, or it ended; 0: neither is so
	asleep bool            // of a session: it dials when it has its turn, or the timer fires
	timer  *time.Timer     // of a session
}

// queuePlace is the wait of a connection or session for an endpoint, if there was one.
type queuePlace struct{ wait *wait }

// enter begins to wait for an endpoint, or goes on with that.
func (q *queuePlace) enter(e *entry, of waitqueue.Waiter, client *quota.Client, now time.Duration) {
	e.stage.enter(waiting)
	if old := q.wait; old == nil || old.took > 0 || old.place.Of == nil {
		w := &wait{place: waitqueue.Place{Of: of, Client: &client.Waiting, Port: e.front, Since: now - q.waited()}}
		if old != nil && old.took == 0 {
			w.place.Since = old.place.Since
		}
		q.wait = w
		e.front.core.counts.waiting.Add(1)
		if first := e.front.quota.Waiting.Enter(&w.place, e.plan.maxWaiting()); first != nil {
			first.Of.Evicted()
		}
	}
	if p := e.front.present(); !p.hasPods() && e.front.quota.Waiting.NeedsPods(now) {
		e.front.core.opts.NeedPods(p.Port)
	}
}

// leave ends the wait: an endpoint was reached, or the life ends.
func (q *queuePlace) leave(e *entry, now time.Duration) {
	w := q.wait
	if w == nil || w.took > 0 {
		return
	}
	w.took = max(now-w.place.Since, 1)
	if w.place.Of == nil {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	e.front.quota.Waiting.Leave(&w.place)
	e.front.core.counts.waiting.Add(-1)
}

// pass lets the next one pick.
func (q *queuePlace) pass(e *entry) {
	if q.wait != nil {
		e.front.quota.Waiting.Pass(&q.wait.place)
	}
}

// waits tells whether it waits for an endpoint, or dials after it has.
func (q *queuePlace) waits() bool { return q.wait != nil && q.wait.took == 0 }

// waited is how long it did, until an endpoint was reached.
func (q *queuePlace) waited() time.Duration {
	if q.wait == nil {
		return 0
	}
	return q.wait.took
}

// maxWaiting is how many of the Service may wait.
func (p *plan) maxWaiting() int {
	if most := p.policy.Shares.MaxWaiting; most >= 0 {
		return most
	}
	return math.MaxInt
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
	if t := c.account.Known(name); t != nil {
		return t.Waiting.Len()
	}
	return 0
}

// WaitsForEndpoint tells whether new connections of a service port wait where it has no endpoint.
func (c *Core) WaitsForEndpoint(p *service.Port) bool {
	return p.Policy.Or(*c.policy.Load()).WaitForEndpoint > 0
}
