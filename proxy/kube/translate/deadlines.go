package translate

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// lookAgain is how often the time is looked at until a deadline: the clock may be set, and a timer stands still while
// the host sleeps.
const lookAgain = 15 * time.Second

// deadlines are the times until which Services are debugged. Each has a timer of its own: nothing looks through others.
// A Cache uses it under its lock.
type deadlines map[service.Name]deadline

type deadline struct {
	timer   *time.Timer // nil: it does not count
	refused time.Time   // it was too far ahead when it was asked for, and stays refused
}

// begin replaces the deadline of a Service, and tells whether it counts now. Then due is called, without the lock, when
// it may be over, which is to be found out by another begin.
func (d deadlines) begin(name service.Name, until time.Time, due func()) (counts bool) {
	refused := d[name].refused
	d.end(name)
	switch left := time.Until(until); {
	case left <= 0:
		return false
	case left > service.MostDebug || refused.Equal(until):
		d[name] = deadline{refused: until}
		return false
	default:
		d[name] = deadline{timer: time.AfterFunc(min(left, lookAgain), due)}
		return true
	}
}

// end forgets the deadline of a Service.
func (d deadlines) end(name service.Name) {
	if timer := d[name].timer; timer != nil {
		timer.Stop()
	}
	delete(d, name)
}

// refused tells whether the deadline of a Service is too far ahead.
func (d deadlines) refused(name service.Name) bool { return !d[name].refused.IsZero() }
