package winservice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// eventSink is the event log of the host. Calls may take long: it is another process.
type eventSink interface {
	Report(severity Severity, id uint32, text string) error
}

// Bounds of what goes into the event log, which is small and shared: tenants cause events too.
const (
	eventsEach   = 10               // events of one ID …
	eventsPeriod = 10 * time.Minute // … in this time
	eventBytes   = 4096             // of one text
	eventsQueue  = 64               // that wait for the host
)

// EventLog writes events, never more than the bounds. Writers do not wait for the host. Safe for concurrent use.
type EventLog struct {
	sink  eventSink
	queue chan event
	ended chan struct{}

	mu     sync.Mutex
	closed bool
	since  time.Time      // when this period began
	counts map[uint32]int // of each ID in this period
	left   map[uint32]int // how many of them were left out
}

type event struct {
	id   uint32
	text string
}

func newEventLog(sink eventSink) *EventLog {
	l := &EventLog{
		sink: sink, queue: make(chan event, eventsQueue), ended: make(chan struct{}),
	}
	l.startPeriod()
	go l.pass()
	return l
}

// pass writes the queued events. Those that the host refuses go to the daemon's log.
func (l *EventLog) pass() {
	defer close(l.ended)
	for e := range l.queue {
		_ = l.sink.Report(severityOf(e.id), e.id, e.text)
	}
}

// Failed writes that the service could not start, or ended by itself.
func (l *EventLog) Failed(err error) { l.write(eventFailed, err.Error()) }

// Crashed writes how the run before this one ended.
func (l *EventLog) Crashed(panicked string) { l.write(eventCrashed, panicked) }

// write queues an event of Events, or counts it if there were too many of its ID.
func (l *EventLog) write(id uint32, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if time.Since(l.since) >= eventsPeriod {
		l.startPeriod()
	}
	if l.counts[id]++; l.counts[id] > eventsEach || !l.put(event{id, tidy(text)}) {
		l.left[id]++
	}
}

// put queues an event if there is room.
func (l *EventLog) put(e event) bool {
	select {
	case l.queue <- e:
		return true
	default:
		return false
	}
}

// startPeriod starts counting again, and tells what was left out in the period before.
func (l *EventLog) startPeriod() {
	if len(l.left) == 0 || l.put(event{eventLimited, l.leftOut()}) {
		l.left = map[uint32]int{}
	}
	l.since, l.counts = time.Now(), map[uint32]int{}
}

// leftOut tells what was left out in this period.
func (l *EventLog) leftOut() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Events that are in the log of the daemon alone, since %s:", l.since.Format(time.DateTime))
	for _, id := range slices.Sorted(maps.Keys(l.left)) {
		fmt.Fprintf(&out, "\n%d of ID %d", l.left[id], id)
	}
	return out.String()
}

// closeTimeout is how long Close waits for the host.
const closeTimeout = 2 * time.Second

// Close writes what is queued, and waits for that for a short time. Later events are ignored.
func (l *EventLog) Close() {
	l.mu.Lock()
	if !l.closed {
		l.startPeriod()
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	select {
	case <-l.ended:
	case <-time.After(closeTimeout):
	}
}
