package splice

import (
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/waitqueue"
)

// DefaultWaiting is how many connections and sessions of one Service may wait for an endpoint where Options set none.
const DefaultWaiting = 1024

// wait is the place of a connection or session in the queue of its Service, as its owner has it.
type wait struct {
	place  waitqueue.Place // Of is nil: a predecessor had it, and it is not in the queue here
	took   time.Duration   // until an endpoint was reached, or it ended; 0: neither is so
	asleep bool            // of a session: it dials when it has its turn, or the timer fires
	timer  *time.Timer     // of a session
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
func (f *life) queue(of waitqueue.Waiter, client *quota.Client, now time.Duration) {
	f.stage.enter(waiting)
	if old := f.wait; old == nil || old.took > 0 || old.place.Of == nil {
		w := &wait{place: waitqueue.Place{Of: of, Client: &client.Waiting, Port: f.front, Since: now - f.waited()}}
		if old != nil && old.took == 0 {
			w.place.Since = old.place.Since
		}
		f.wait = w
		f.front.core.waiting.Add(1)
		if first := f.front.quota.Waiting.Enter(&w.place, f.front.core.opts.Waiting); first != nil {
			first.Of.Evicted()
		}
	}
	if p := f.front.present(); !p.hasPods() && f.front.quota.Waiting.NeedsPods(now) {
		f.front.core.opts.NeedPods(p.Port)
	}
}

// unqueue ends the wait: an endpoint was reached, or the life ends.
func (f *life) unqueue(now time.Duration) {
	w := f.wait
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
	f.front.quota.Waiting.Leave(&w.place)
	f.front.core.waiting.Add(-1)
}

// passTurn lets the next one pick.
func (f *life) passTurn() {
	if f.wait != nil {
		f.front.quota.Waiting.Pass(&f.wait.place)
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
	if t := c.account.Known(name); t != nil {
		return t.Waiting.Len()
	}
	return 0
}

// Holds tells whether new connections of a service port wait where it has no endpoint.
func (c *Core) Holds(p *service.Port) bool { return p.Policy.Or(*c.policy.Load()).WaitForEndpoint > 0 }
