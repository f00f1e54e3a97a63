package connlog

import (
	"slices"
	"sync/atomic"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Sink takes reports that were selected: a connection log, an exporter. Put must not block.
type Sink interface{ Put(Report) }

// Selection passes on the reports that the daemon's settings and the connection's Service (service.Logging) want
// logged. Safe for concurrent use.
type Selection struct {
	to         []Sink
	events     atomic.Pointer[[]Event]
	sampledOut atomic.Uint64
}

// NewSelection returns a Selection for some sinks, of some events.
func NewSelection(events []Event, to ...Sink) *Selection {
	s := &Selection{to: to}
	s.SetEvents(events)
	return s
}

// SetEvents replaces the events that are logged.
func (s *Selection) SetEvents(events []Event) { s.events.Store(&events) }

// Observe implements record.Observer.
func (s *Selection) Observe(r *record.Record) { s.Put(Report{Event: End, Record: r}) }

// Put implements Sink.
func (s *Selection) Put(r Report) {
	if !s.wants(&r) {
		return
	}
	for _, sink := range s.to {
		sink.Put(r)
	}
}

func (s *Selection) wants(r *Report) bool {
	logging := &r.Record.Logging
	switch {
	case logging.Records == service.RecordsOff, !slices.Contains(*s.events.Load(), r.Event):
		return false
	case r.failed():
		return true
	case logging.Records == service.RecordsFailures:
		return false
	case !sampled(r.Record.ID, logging.Sample):
		s.sampledOut.Add(1)
		return false
	}
	return true
}

// SampledOut returns the number of records that sampling left out.
func (s *Selection) SampledOut() uint64 { return s.sampledOut.Load() }

// sampled tells whether an id is among one in n: the same for all events of a connection. Ids are multiplied first,
// since they may be given out in turns.
func sampled(id uint64, n int) bool {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: spreads consecutive numbers (Fibonacci hashing)
	return n <= 1 || id*golden>>32%uint64(n) == 0
}
