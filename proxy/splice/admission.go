package splice

import (
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/record"
)

// admission is the place of a client among all clients of its front.
type admission struct {
	counted bool // among the open connections and sessions of the front
	placed  bool // and among its client's
}

// admit checks what a client dialled, its address and the limits of connections. The outcome is empty for a client that
// is admitted: it is counted until uncount. A destination that is no frontend of the service port means that the client
// connected to the proxy port itself, or that rules of others led it here.
func (a *admission) admit(e *entry, dst netip.AddrPort) record.Outcome {
	e.dst = dst
	exposed, ok := e.plan.exposure(dst)
	if !ok {
		return record.OutcomeNotPortal
	}
	e.portal = exposed.Kind
	if client := e.clientAddr(); !e.plan.admits(client, exposed.Kind) && !e.isNode(client, dst.Addr()) {
		return record.OutcomeSourceRange
	}
	return a.enter(e, e.began)
}

// uncount ends the count of a client that was admitted. It may be called more than once.
func (a *admission) uncount(e *entry) {
	if a.counted {
		a.counted = false
		e.front.leave()
		a.uncountClient(e)
	}
}

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

// join counts a connection or session until leave. False: the limit is exceeded by it.
func (f *Front) join(p *plan) bool {
	n, most := f.active.Add(1), p.policy.MaxConnections
	return most <= 0 || n <= int64(most)
}

// leave ends what join began.
func (f *Front) leave() { f.active.Add(-1) }
