package proxy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

// A call is made between two syncs, and not while the loop waits for the host.
func TestLoopAnswersQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		calls := running(t, p, store)
		p.expect(t, "resync 0")
		called := 0
		if err := calls.Do(t.Context(), func() { called++ }); err != nil || called != 1 {
			t.Errorf("%v, asked %d times", err, called)
		}
		p.set(1, nil)
		set(store, "a", "10.0.0.1:1") // which fails, and is tried again after a while
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), firstRetry/2)
		defer cancel()
		if err := calls.Do(ctx, func() { called++ }); !errors.Is(err, context.DeadlineExceeded) || called != 1 {
			t.Errorf("while the loop waits: %v, asked %d times", err, called)
		}
		time.Sleep(time.Minute)
		if err := calls.Do(t.Context(), func() { called++ }); err != nil || called != 2 {
			t.Errorf("when it waits no longer: %v, asked %d times", err, called)
		}
	})
}
