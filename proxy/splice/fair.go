package splice

import (
	"time"

	"github.com/portald/portald/proxy/record"
)

// enter counts a client's connection or session by the limits of its plan. The outcome is empty if it is within all of
// them; else it took nothing.
func (f *life) enter(now time.Duration) (o record.Outcome) {
	all := func() record.Outcome { return f.enterFront(now) }
	f.placed, o = f.front.rates.Enter(&f.plan.policy.Shares, f.clientAddr(), now, all)
	return o
}

// enterFront is enter by the limits for all clients together.
func (f *life) enterFront(now time.Duration) record.Outcome {
	rate := f.plan.policy.Shares.ConnectionRate
	if rate > 0 && !f.front.rates.Begin(now, rate) {
		return record.OutcomeRate
	}
	f.counted = true
	if f.front.join(f.plan) {
		return ""
	}
	f.uncount()
	if rate > 0 {
		f.front.rates.TakeBack(rate)
	}
	return record.OutcomeLimit
}

// countClient counts the life for its client if its front limits that by now. It is called by the life's owner, for one
// that began before: the limit is for all that are open.
func (f *life) countClient() {
	if f.counted && !f.placed && f.front.present().policy.Shares.MaxConnectionsPerClient > 0 {
		f.placed = true
		f.front.rates.Take(f.clientAddr())
	}
}

// uncountClient ends what enter or countClient counted for the client.
func (f *life) uncountClient() {
	if f.placed {
		f.placed = false
		f.front.rates.Give(f.clientAddr())
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
