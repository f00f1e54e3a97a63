package winservice

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// scm is the SCM's side of a session.
type scm struct {
	requests chan Request
	mu       sync.Mutex
	reports  []Report
	ended    chan error
}

// begin runs a Program as a service, in a bubble of synctest.
func begin(program Program) *scm {
	m := &scm{requests: make(chan Request), ended: make(chan error, 1)}
	s := &session{program: program, requests: m.requests, report: func(r Report) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.reports = append(m.reports, r)
	}}
	go func() { m.ended <- s.run() }()
	return m
}

// last returns the last report, once everything has ended.
func (m *scm) last() Report {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reports[len(m.reports)-1]
}

// states are those that were reported, each once.
func (m *scm) states() (out []State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.reports {
		out = append(out, r.State)
	}
	return slices.Compact(out)
}

// serve is a Program that starts after a time, and ends so long after it is asked to.
func serve(start, drain time.Duration) Program {
	return func(ctx context.Context, life Life) error {
		time.Sleep(start)
		life.Started()
		<-ctx.Done()
		select {
		case <-time.After(drain):
			return nil
		case <-life.Cut:
			return errors.New("cut")
		}
	}
}

func TestStartAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begin(serve(9*time.Second, 31*time.Second))
		time.Sleep(5 * time.Second)
		if r := m.last(); r.State != Starting || r.Checkpoint != 3 || r.WaitHint <= checkpointPeriod {
			t.Errorf("after 5 s of a start: %+v", r)
		}
		time.Sleep(5 * time.Second)
		if r := m.last(); r != (Report{State: Running}) {
			t.Errorf("started: %+v", r)
		}
		before := len(m.reports)
		m.requests <- Interrogate
		if r := m.last(); r != (Report{State: Running}) || len(m.reports) != before+1 {
			t.Errorf("asked: %+v", r)
		}
		m.requests <- Stop
		time.Sleep(30 * time.Second)
		if r := m.last(); r.State != Stopping || r.Checkpoint < 15 || r.WaitHint == 0 {
			t.Errorf("30 s after the stop: %+v", r)
		}
		if err := <-m.ended; err != nil {
			t.Error(err)
		}
		if got := m.states(); !slices.Equal(got, []State{Starting, Running, Stopping}) {
			t.Errorf("states %v", got)
		}
	})
}

// A stop while the service starts is a stop.
func TestStopWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begin(serve(5*time.Second, 0))
		m.requests <- Stop
		if r := m.last(); r.State != Stopping || r.Checkpoint != 1 {
			t.Errorf("%+v", r)
		}
		if err := <-m.ended; err != nil {
			t.Error(err)
		}
		if got := m.states(); !slices.Equal(got, []State{Starting, Stopping}) {
			t.Errorf("states %v", got)
		}
	})
}

// Windows does not wait for ever: what still drains is cut before its time is over.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		requests []Request
		within   time.Duration
		cut      bool
	}{
		{[]Request{Stop}, 11 * time.Minute, false},
		{[]Request{Preshutdown}, PreshutdownTimeout, true},
		{[]Request{Shutdown}, 5 * time.Second, true},
		{[]Request{Stop, Shutdown}, 5 * time.Second, true},
		{[]Request{Preshutdown, Shutdown}, 5 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := begin(serve(0, 10*time.Minute))
			m.last()
			from := time.Now()
			for _, r := range c.requests {
				m.requests <- r
			}
			err := <-m.ended
			if took := time.Since(from); took >= c.within || (err != nil) != c.cut {
				t.Errorf("%v: %v after %v", c.requests, err, took)
			}
		})
	}
}

// A second limit that passes while the first has cut already changes nothing.
func TestCutTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begin(func(ctx context.Context, life Life) error {
			<-life.Cut
			time.Sleep(time.Minute)
			return errors.New(life.Reason())
		})
		m.requests <- Preshutdown
		time.Sleep(PreshutdownTimeout)
		m.requests <- Shutdown
		if err := <-m.ended; err == nil || err.Error() != "Windows shuts down" {
			t.Error(err)
		}
	})
}

// A start that hangs shows: there is no progress any more. One that fails is not Running.
func TestBadStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begin(serve(10*time.Minute, 0))
		time.Sleep(startLimit + time.Second)
		at := m.last()
		time.Sleep(startLimit)
		if r := m.last(); r != at || r.State != Starting {
			t.Errorf("%+v, then %+v", at, r)
		}
		time.Sleep(10 * time.Minute)
		if r := m.last(); r.State != Running {
			t.Errorf("late: %+v", r)
		}
		m.requests <- Stop
		<-m.ended
	})
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		m := begin(func(context.Context, Life) error { return broken })
		if err := <-m.ended; err != broken || !slices.Equal(m.states(), []State{Starting}) {
			t.Errorf("%v, %v", err, m.states())
		}
	})
}
