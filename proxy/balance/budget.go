package balance

import (
	"math"
	"time"

	"github.com/portald/portald/portal/service"
)

// The budget of a service port for further dials, after the retry budgets of Finagle and Envoy: so many a second
// whatever comes, and a share of the connections; both may be saved up for that long.
const (
	budgetRate = 10
	budgetTime = 10 * time.Second
)

// budget is how many further dials may fail. Its zero value is right for a service port that has had no connection yet.
// port.mu guards it.
type budget struct {
	shares float64 // of connections until then, which get less by and by
	fresh  float64 // of connections since
	steady float64 // of budgetRate that were taken and have not come back
	at     time.Time
}

// connection adds the share of a connection.
func (b *budget) connection(percent int) {
	if percent > 0 {
		b.fresh += float64(percent) / 100
	}
}

// take takes a dial. False: there is none.
func (b *budget) take(percent int, now time.Time) bool {
	if percent < 0 {
		return true
	}
	passed := now.Sub(b.at).Seconds()
	if b.at.IsZero() {
		passed = 0
	}
	b.at = now
	b.steady = max(0, b.steady-passed*budgetRate)
	b.age(passed / budgetTime.Seconds())
	switch {
	case b.shares >= 1:
		b.shares--
	case b.steady+1 <= budgetRate*budgetTime.Seconds():
		b.steady++
	default:
		return false
	}
	return true
}

// age has shares get less, after so many times budgetTime in which the fresh ones came evenly.
func (b *budget) age(times float64) {
	left, of := math.Exp(-times), 1.0
	if times > 0 {
		of = (1 - left) / times
	}
	b.shares, b.fresh = b.shares*left+b.fresh*of, 0
}

// giveBack gives a dial back that worked.
func (b *budget) giveBack() { b.steady = max(0, b.steady-1) }

// MayRetry takes a further dial of a connection out of the budget of its service port. False: there is nothing left.
func (b *Balancer) MayRetry(policy *service.Policy) bool {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	may := b.port.budget.take(policy.RetryBudget, time.Now())
	if !may {
		b.port.all.exhausted.Add(1)
	}
	return may
}

// Retried gives that back: the dial worked. So the budget bounds what is dialled in vain, and no connection that an
// endpoint would take.
func (b *Balancer) Retried() {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.port.budget.giveBack()
}
