package winservice

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Program runs as a service. It ends when ctx ends, or with an error by itself.
type Program func(ctx context.Context, life Life) error

// Life connects a Program with the service that runs it.
type Life struct {
	Started func()          // the Program calls it once it works; the service is starting until then
	Cut     <-chan struct{} // closed when Windows does not wait longer: what is still open has to end at once
	Reason  func() string   // why ctx ended
}

// Request is a control code of the SCM.
type Request int

// The requests that a service gets.
const (
	Interrogate Request = iota
	Stop
	Preshutdown // Windows is about to shut down, and waits for PreshutdownTimeout
	Shutdown    // Windows shuts down, and kills what runs after 5 s
)

// String is the reason of a stop.
func (r Request) String() string {
	switch r {
	case Stop:
		return "it was asked to stop"
	case Preshutdown, Shutdown:
		return "Windows shuts down"
	}
	return "nothing was asked"
}

// limit is how long a Program may take to end, 0: as long as it needs.
func (r Request) limit() time.Duration {
	switch r {
	case Preshutdown:
		return PreshutdownTimeout - 30*time.Second
	case Shutdown:
		return time.Second
	}
	return 0
}

// Report is the state of a service as the SCM hears it.
type Report struct {
	State      State
	Checkpoint uint32        // rises while a change of state makes progress
	WaitHint   time.Duration // until the next checkpoint
}

// How progress is reported. A start that hangs is one for the SCM too, so its checkpoints end.
const (
	checkpointPeriod = 2 * time.Second
	waitHint         = 10 * time.Second
	startLimit       = 2 * time.Minute
)

// session is a Program that runs as a service.
type session struct {
	program  Program
	requests <-chan Request
	report   func(Report)

	now     Report
	stop    context.CancelCauseFunc
	cut     func()
	started <-chan struct{}
	overdue <-chan time.Time // when the Program is cut
}

// run runs the Program and returns its error. The report that the service has stopped is the caller's.
func (s *session) run() error {
	s.enter(Starting)
	ended := s.start()
	checkpoint := time.NewTicker(checkpointPeriod)
	defer checkpoint.Stop()
	hanging := time.NewTimer(startLimit)
	defer hanging.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-s.started:
			s.started = nil
			if s.now.State == Starting {
				s.enter(Running)
			}
		case <-hanging.C:
			if s.now.State == Starting {
				checkpoint.Stop()
			}
		case <-checkpoint.C:
			s.progress()
		case <-s.overdue:
			s.overdue = nil
			s.cut()
		case r := <-s.requests:
			s.answer(r, checkpoint)
		}
	}
}

// start starts the Program, whose error arrives at the channel.
func (s *session) start() <-chan error {
	ctx, stop := context.WithCancelCause(context.Background())
	started, cut := make(chan struct{}), make(chan struct{})
	s.stop, s.started, s.cut = stop, started, sync.OnceFunc(func() { close(cut) })
	life := Life{
		Started: sync.OnceFunc(func() { close(started) }), Cut: cut,
		Reason: func() string { return fmt.Sprint(context.Cause(ctx)) },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.program(ctx, life) }()
	return ended
}

func (s *session) enter(state State) {
	s.now = Report{State: state}
	if state != Running {
		s.now.Checkpoint, s.now.WaitHint = 1, waitHint
	}
	s.report(s.now)
}

func (s *session) progress() {
	if s.now.State != Running {
		s.now.Checkpoint++
		s.report(s.now)
	}
}

// answer does what the SCM asks.
func (s *session) answer(r Request, checkpoint *time.Ticker) {
	if r == Interrogate {
		s.report(s.now)
		return
	}
	if s.now.State != Stopping {
		checkpoint.Reset(checkpointPeriod)
		s.enter(Stopping)
		s.stop(stopError(r))
	}
	if limit := r.limit(); limit > 0 {
		s.overdue = time.After(limit)
	}
}

// stopError is the cause of a stop that was asked for.
type stopError Request

func (e stopError) Error() string { return Request(e).String() }
