package proxy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

// A question is answered between two rounds, and not while the loop waits for the host.
func TestLoopAnswersQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := service.NewStore(), &plane{}
		questions := running(t, p, store)
		p.expect(t, "resync 0")
		asked := 0
		if err := questions.Ask(t.Context(), func() { asked++ }); err != nil || asked != 1 {
			t.Errorf("%v, asked %d times", err, asked)
		}
		p.set(1, nil)
		set(store, "a", "10.0.0.1:1") // which fails, and is tried again after a while
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), firstRetry/2)
		defer cancel()
		if err := questions.Ask(ctx, func() { asked++ }); !errors.Is(err, context.DeadlineExceeded) || asked != 1 {
			t.Errorf("while the loop waits: %v, asked %d times", err, asked)
		}
		time.Sleep(time.Minute)
		if err := questions.Ask(t.Context(), func() { asked++ }); err != nil || asked != 2 {
			t.Errorf("when it waits no longer: %v, asked %d times", err, asked)
		}
	})
}
