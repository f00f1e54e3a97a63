package connlog

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/proxy/record"
)

// Event says why a connection is reported.
type Event string

// The events of a connection.
const (
	Start    Event = "start"    // it was admitted, and no endpoint was dialled yet
	Dialled  Event = "attempt"  // a dial has its result: the only attempt of the record
	Periodic Event = "periodic" // it is open for long: the totals so far, and the bytes of the last interval
	End      Event = "end"      // it has ended: the totals
)

// AllEvents lists the events.
func AllEvents() []Event { return []Event{Start, Dialled, Periodic, End} }

// Report has the facts of a connection at one event, for all formats of the log. It is immutable.
type Report struct {
	Event    Event
	Record   *record.Record // as far as it is known by then
	Progress *Progress      // of Periodic alone
}

// Progress has the totals of a connection that goes on, and its last interval.
type Progress struct {
	Proxy    netip.AddrPort // our own address towards the endpoint
	Interval Interval
}

// Failed tells whether a connection failed, or a dial of it did.
func Failed(r *record.Record) bool {
	return !r.Outcome.Well() || failedDial(r)
}

func failedDial(r *record.Record) bool {
	return slices.ContainsFunc(r.Attempts, func(a record.Attempt) bool { return a.Failed() })
}

// failed tells whether it reports a failure.
func (r *Report) failed() bool {
	if r.Event == End {
		return Failed(r.Record)
	}
	return failedDial(r.Record)
}

// weight is how many connections a report that was selected stands for.
func (r *Report) weight() int {
	if r.failed() {
		return 1
	}
	return max(r.Record.Logging.Sample, 1)
}
