package connlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/proxy/record"
)

// source is connections as a test sets them.
type source struct {
	mu      sync.Mutex
	on      record.Events
	cancels int
	open    []record.Live
}

func (s *source) Subscribe(e record.Events) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = e
	return func() { s.mu.Lock(); defer s.mu.Unlock(); s.on, s.cancels = record.Events{}, s.cancels+1 }
}

func (s *source) SnapshotPart(part int) (all []record.Live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.open {
		if l.ID%record.SnapshotParts == uint64(part) {
			all = append(all, l)
		}
	}
	return all
}

// set changes the source.
func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// reported runs events of a source within a bubble of synctest, and returns what is reported, one line each.
func reported(t *testing.T, s *source, settings EventSettings) (e *Events, lines func() []string) {
	var got []string
	var mu sync.Mutex
	to := NewSelection(nil, sinkFunc(func(r Report) {
		var l Line
		l.FillReport(r)
		line := fmt.Sprintf("%s %d %s %d", r.Event, l.ID, l.Proxy, len(l.Attempts))
		if i := l.Interval; i != nil {
			line += fmt.Sprintf(" %v ms %d of %d up %d of %d down", i.MS, i.BytesFromClient, l.BytesFromClient,
				i.BytesFromEndpoint, l.BytesFromEndpoint)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, line)
	}))
	e = NewEvents(s, to, settings)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return e, func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		out := got
		got = nil
		return out
	}
}

func live(id uint64) record.Live {
	return record.Live{ID: id, Start: time.Now(), Service: cart, Client: addr("10.0.0.9:41234"), Proxy: addr("10.0.0.1:1")}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEventsOfDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		e, lines := reported(t, s, EventSettings{Events: []Event{End}})
		if s.on.Started != nil || s.on.Attempted != nil || s.on.Ended != nil {
			t.Error("it subscribed to what nobody wants")
		}
		e.Set(EventSettings{Events: []Event{Start, Dialled}})
		synctest.Wait()
		s.on.Started(live(7))
		s.on.Attempted(live(7), record.Attempt{Endpoint: addr("10.1.0.2:8080"), Proxy: addr("10.0.0.1:35010"),
			Err: "connection refused", Times: 1})
		s.on.Attempted(live(7), record.Attempt{Endpoint: addr("10.1.0.3:8080"), Proxy: addr("10.0.0.1:35012"), Times: 1})
		e.to.Observe(numbered(7)) // an end, which is not asked for
		wantLines(t, lines(), "start 7 invalid AddrPort 0", "attempt 7 invalid AddrPort 1", "attempt 7 10.0.0.1:35012 1")
		e.Set(EventSettings{Events: []Event{Start}})
		synctest.Wait()
		if s.on.Started == nil || s.on.Attempted != nil || s.cancels != 1 {
			t.Errorf("it is subscribed to %+v after %d cancels", s.on, s.cancels)
		}
		e.Set(EventSettings{})
		synctest.Wait()
		if s.on.Started != nil || s.cancels != 2 {
			t.Error("it is subscribed still")
		}
	})
}

func TestPeriodicEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{open: []record.Live{live(7), live(8)}}
		s.open[0].BytesFromClient, s.open[0].BytesFromEndpoint = 10, 100
		e, lines := reported(t, s, EventSettings{Events: []Event{End}, Period: 64 * time.Second})
		time.Sleep(time.Hour)
		wantLines(t, lines())

		s.set(func() { s.open[1].Start = time.Now() }) // it is young
		e.Set(EventSettings{Events: []Event{Periodic}, Period: 64 * time.Second})
		time.Sleep(64*time.Second + time.Millisecond)
		wantLines(t, lines(), "periodic 7 10.0.0.1:1 0 3.608e+06 ms 10 of 10 up 100 of 100 down")
		s.set(func() { s.open[0].BytesFromClient = 15 })
		time.Sleep(64 * time.Second)
		wantLines(t, lines(), "periodic 7 10.0.0.1:1 0 64000 ms 5 of 15 up 0 of 100 down",
			"periodic 8 10.0.0.1:1 0 73000 ms 0 of 0 up 0 of 0 down")
		s.set(func() { s.open = s.open[1:] })
		time.Sleep(64 * time.Second)
		wantLines(t, lines(), "periodic 8 10.0.0.1:1 0 64000 ms 0 of 0 up 0 of 0 down")
		if n := len(e.reported[7]); n != 0 {
			t.Errorf("%d connections are remembered that have ended", n)
		}
		e.Set(EventSettings{Events: []Event{End}})
		time.Sleep(time.Hour)
		wantLines(t, lines())
	})
}

// Many connections are not reported all at once.
func TestPeriodicEventsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		for id := range uint64(6400) {
			s.open = append(s.open, live(id))
		}
		time.Sleep(time.Hour)
		_, lines := reported(t, s, EventSettings{Events: []Event{Periodic}})
		time.Sleep(time.Millisecond)
		for range record.SnapshotParts {
			time.Sleep(DefaultPeriod / record.SnapshotParts)
			if n := len(lines()); n != 100 {
				t.Fatalf("%d of 6400 in one step", n)
			}
		}
	})
}
