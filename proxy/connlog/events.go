package connlog

import (
	"context"
	"slices"
	"time"

	"github.com/portald/portald/proxy/record"
)

// Source is where connections are carried: a splice.Core.
type Source interface {
	Subscribe(record.Events) (cancel func())
	// SnapshotPart lists what is open of one of splice.SnapshotParts parts, which have about as much each.
	SnapshotPart(part int) []record.Live
}

// DefaultPeriod is the time between two periodic reports of a connection.
const DefaultPeriod = 5 * time.Minute

// EventSettings say which events are logged.
type EventSettings struct {
	Events []Event       // of AllEvents
	Period time.Duration // of Periodic; 0: DefaultPeriod
}

// Events reports what happens to connections before they end. Events that are not logged cost nothing.
type Events struct {
	source  Source
	to      *Selection
	changed chan EventSettings

	// Owned by Run.
	settings EventSettings
	reported [record.SnapshotParts]map[uint64]carried // by the id of connections that had a periodic report
}

// carried has the byte counts of a connection at its last periodic report.
type carried struct {
	at    time.Time
	bytes Interval // totals
}

// NewEvents reports the events of the source.
func NewEvents(source Source, to *Selection, settings EventSettings) *Events {
	e := &Events{source: source, to: to, changed: make(chan EventSettings, 1)}
	e.Set(settings)
	return e
}

// Set changes the settings, soon. One goroutine at a time may call it.
func (e *Events) Set(s EventSettings) {
	if s.Period <= 0 {
		s.Period = DefaultPeriod
	}
	e.to.SetEvents(s.Events)
	select {
	case <-e.changed: // of which Run has not heard
	default:
	}
	e.changed <- s
}

// Run reports until ctx ends.
func (e *Events) Run(ctx context.Context) error {
	for next := 0; ctx.Err() == nil; {
		next = e.until(ctx, next)
	}
	return nil
}

// until reports by the present settings until others come, beginning with that part of the source, and returns the
// part that is next.
func (e *Events) until(ctx context.Context, part int) int {
	cancel := e.subscribe()
	defer cancel()
	var due <-chan time.Time
	if e.wants(Periodic) {
		tick := time.NewTicker(max(e.settings.Period/record.SnapshotParts, time.Millisecond))
		defer tick.Stop()
		due = tick.C
	} else {
		clear(e.reported[:])
	}
	for {
		select {
		case <-ctx.Done():
			return part
		case e.settings = <-e.changed:
			return part
		case now := <-due:
			e.visit(part, now)
			part = (part + 1) % record.SnapshotParts
		}
	}
}

func (e *Events) wants(event Event) bool { return slices.Contains(e.settings.Events, event) }

// subscribe has those events reported that the source tells of.
func (e *Events) subscribe() (cancel func()) {
	var on record.Events
	if e.wants(Start) {
		on.Started = func(l record.Live) { e.to.Put(Report{Event: Start, Record: recordOf(&l, time.Now())}) }
	}
	if e.wants(Dialled) {
		on.Attempted = func(l record.Live, a record.Attempt) {
			r := recordOf(&l, time.Now())
			r.Attempts = []record.Attempt{a}
			e.to.Put(Report{Event: Dialled, Record: r})
		}
	}
	if on.Started == nil && on.Attempted == nil {
		return func() {}
	}
	return e.source.Subscribe(on)
}

// visit reports what is open of one part since a period or longer. Each part is visited once a period.
func (e *Events) visit(part int, now time.Time) {
	before, reported := e.reported[part], map[uint64]carried{}
	for _, l := range e.source.SnapshotPart(part) {
		if now.Sub(l.Start) < e.settings.Period {
			continue
		}
		last, again := before[l.ID]
		if !again {
			last.at = l.Start
		}
		total := carried{now, Interval{0, l.BytesFromClient, l.BytesToEndpoint, l.BytesFromEndpoint, l.BytesToClient}}
		reported[l.ID] = total
		e.to.Put(Report{
			Event: Periodic, Record: recordOf(&l, now), Progress: &Progress{l.Proxy, total.since(&last)},
		})
	}
	e.reported[part] = reported
}

// since returns the bytes that were carried after an earlier report.
func (c *carried) since(last *carried) Interval {
	return Interval{
		MS:                millis(c.at.Sub(last.at)),
		BytesFromClient:   c.bytes.BytesFromClient - last.bytes.BytesFromClient,
		BytesToEndpoint:   max(0, c.bytes.BytesToEndpoint-last.bytes.BytesToEndpoint), // fewer if they are sent again
		BytesFromEndpoint: c.bytes.BytesFromEndpoint - last.bytes.BytesFromEndpoint,
		BytesToClient:     c.bytes.BytesToClient - last.bytes.BytesToClient,
	}
}

// recordOf is the record of what is open, as far as it is known.
func recordOf(l *record.Live, now time.Time) *record.Record {
	return &record.Record{
		ID: l.ID, CarriedBy: record.Userspace, Start: l.Start, Service: l.Service, Client: l.Client,
		ClientPod: l.ClientPod, ClientNode: l.ClientNode, ClientZone: l.ClientZone, OriginalDst: l.OriginalDst,
		Portal: l.Portal, Endpoint: l.Endpoint, Logging: l.Logging,
		BytesFromClient: l.BytesFromClient, BytesToEndpoint: l.BytesToEndpoint,
		BytesFromEndpoint: l.BytesFromEndpoint, BytesToClient: l.BytesToClient,
		Connect: -1, FirstByte: -1, Duration: now.Sub(l.Start),
	}
}
