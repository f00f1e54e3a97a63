package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

// slow takes a minute for everything.
type slow struct{ s *Stopwatch }

func (p slow) do() error {
	time.Sleep(time.Minute)
	if p.s.Running() != time.Minute {
		panic("not a minute")
	}
	return nil
}

func (p slow) WritesNoRule(service.Change) bool              { return true }
func (p slow) Sync(context.Context, []service.Change) error  { return p.do() }
func (p slow) Resync(context.Context, []*service.Port) error { return p.do() }
func (p slow) Disturbed() bool                               { return false }
func (p slow) Audit(context.Context) error                   { return p.do() }
func (p slow) Sweep(context.Context) (time.Time, error)      { return time.Time{}, p.do() }

func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Stopwatch{}
		s.Dataplane, s.Sweeper = slow{s}, slow{s}
		for _, call := range []func() error{
			func() error { return s.Sync(t.Context(), nil) },
			func() error { return s.Resync(t.Context(), nil) },
			func() error { return s.Audit(t.Context()) },
			func() error {
				_, err := s.Sweep(t.Context())
				return err
			},
		} {
			time.Sleep(time.Hour)
			if s.Running() != 0 {
				t.Error("it runs while nothing is under way")
			}
			if err := call(); err != nil || s.Running() != 0 {
				t.Errorf("%v, runs for %v", err, s.Running())
			}
		}
	})
}
