package splice

import (
	"time"

	"github.com/portald/portald/proxy/record"
)

// enter counts a client's connection or session by the limits of its plan. The outcome is empty if it is within all of
// them; else it took nothing.
func (a *admission) enter(e *entry, now time.Duration) (o record.Outcome) {
	all := func() record.Outcome { return a.enterFront(e, now) }
	a.placed, o = e.front.rates.Enter(&e.plan.policy.Shares, e.clientAddr(), now, all)
	return o
}

// enterFront is enter by the limits for all clients together.
func (a *admission) enterFront(e *entry, now time.Duration) record.Outcome {
	rate := e.plan.policy.Shares.ConnectionRate
	if rate > 0 && !e.front.rates.Begin(now, rate) {
		return record.OutcomeRate
	}
	a.counted = true
	if e.front.join(e.plan) {
		return ""
	}
	a.uncount(e)
	if rate > 0 {
		e.front.rates.TakeBack(rate)
	}
	return record.OutcomeLimit
}

// countClient counts the life for its client if its front limits that by now. It is called by the life's owner, for one
// that began before: the limit is for all that are open.
func (a *admission) countClient(e *entry) {
	if a.counted && !a.placed && e.front.present().policy.Shares.MaxConnectionsPerClient > 0 {
		a.placed = true
		e.front.rates.Take(e.clientAddr())
	}
}

// uncountClient ends what enter or countClient counted for the client.
func (a *admission) uncountClient(e *entry) {
	if a.placed {
		a.placed = false
		e.front.rates.Give(e.clientAddr())
	}
}

// countClients has all that is open counted for its client, soon, where that is limited by now.
func (c *Core) countClients() {
	for _, m := range c.open() {
		if m.common().front.present().policy.Shares.MaxConnectionsPerClient > 0 {
			m.countSoon()
		}
	}
}
