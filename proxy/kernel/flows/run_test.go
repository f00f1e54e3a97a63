package flows

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// stub is Events of a test, which lives in a synctest bubble.
type stub struct {
	mu       sync.Mutex
	queue    [][]byte
	lost     uint64
	failures bool
	open     int // how many are open
	opened   int
	undone   int
	refuse   error
}

func (s *stub) Receive(wait time.Duration, each func(bool, []byte)) (uint64, error) {
	time.Sleep(wait / 1000)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.queue {
		each(false, event)
	}
	lost := s.lost
	s.queue, s.lost = nil, 0
	return lost, nil
}

func (s *stub) Filter(onlyFailures bool) error {
	s.locked(func() { s.failures = onlyFailures })
	return nil
}

func (s *stub) Close() error {
	s.locked(func() { s.open-- })
	return nil
}

func (s *stub) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *stub) run(t *testing.T, log logrus.FieldLogger, observe func(*record.Record), lost func(uint64)) *Recorder {
	r := New(Options{
		Mode: service.ModeKernel, Own: func(netip.Addr) bool { return false },
		Listener: func(netip.AddrPort) bool { return false }, NextID: func() uint64 { return 1 },
		Observe: observe, Lost: lost, Log: log,
		Account:  func() (func(), bool) { return func() { s.locked(func() { s.undone++ }) }, true },
		Timeouts: func() (none Timeouts) { return none },
		Open: func(begins bool) (Events, error) {
			if begins {
				t.Error("beginnings are asked for though the kernel takes times")
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.refuse != nil {
				return nil, s.refuse
			}
			s.open, s.opened = s.open+1, s.opened+1
			return s, nil
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s.open != 0 || s.undone == 0 {
			t.Errorf("at the end %d are open, accounting was undone %d times", s.open, s.undone)
		}
	})
	return r
}

// Nothing is open while nobody wants records; what is wanted, lost and refused has its effect while it runs.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, hook := logtest.NewNullLogger()
		log.SetOutput(io.Discard)
		var seen, lost atomic.Int64
		s := &stub{refuse: errors.New("not permitted")}
		r := s.run(t, log, func(*record.Record) { seen.Add(1) }, func(n uint64) { lost.Add(int64(n)) })
		r.Replace([]*service.Port{cart()})
		set := func(wanted service.Records, wait time.Duration) {
			r.SetPolicy(service.Policy{KernelRecords: wanted})
			time.Sleep(wait)
		}
		is := func(when string, open, opened int, failures bool) {
			t.Helper()
			s.locked(func() {
				if s.open != open || s.opened != opened || s.failures != failures {
					t.Errorf("%s: %d open, %d opened, failures alone: %t", when, s.open, s.opened, s.failures)
				}
			})
		}
		set(service.RecordsOff, time.Hour)
		is("nobody wants records", 0, 0, false)
		set(service.RecordsFailures, 5*time.Minute)
		is("it is refused", 0, 0, false)
		if warnings := len(hook.AllEntries()); warnings != 1 {
			t.Errorf("%d warnings of one reason", warnings)
		}
		s.locked(func() { s.refuse = nil })
		time.Sleep(again + time.Second)
		is("failures are wanted", 1, 1, true)
		set(service.RecordsAll, 2*time.Second)
		is("all are wanted", 1, 1, false)
		s.locked(func() { s.queue, s.lost = [][]byte{capturedEvents(t)["tcp 10.96.0.1:80"]}, 5 })
		time.Sleep(2 * time.Second)
		if seen.Load() != 1 || lost.Load() != 5 {
			t.Errorf("%d records, %d lost", seen.Load(), lost.Load())
		}
		set(service.RecordsOff, 2*time.Second)
		is("nobody wants records any more", 0, 1, false)
	})
}

// Without the kernel's times a beginning is remembered, for a bounded number of flows.
func TestBeginnings(t *testing.T) {
	var b beginnings
	at := time.Unix(7, 0)
	for id := range uint32(3 * maxBeginnings) {
		b.note(id, at)
	}
	if n := len(b.recent) + len(b.older); n > maxBeginnings || n < maxBeginnings/2 {
		t.Errorf("%d are remembered, want %d at most, and half of that at least", n, maxBeginnings)
	}
	const last = 3*maxBeginnings - 1
	if got := b.take(last); got != at.UnixNano() {
		t.Errorf("the last began at %d", got)
	}
	if b.take(last) != 0 || b.take(0) != 0 {
		t.Error("what was taken, or is long ago, is remembered")
	}
}
