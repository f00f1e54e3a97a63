package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseDoubles(t *testing.T) {
	p := Pause{First: 3 * time.Second, Last: 10 * time.Second}
	for range 2 {
		for i, want := range []time.Duration{3, 6, 10, 10} {
			if got := p.Next(); got != want*time.Second {
				t.Errorf("pause %d is %v", i+1, got)
			}
			if got := p.After(i + 1); got != want*time.Second {
				t.Errorf("the pause after %d is %v", i+1, got)
			}
		}
		p.Reset()
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cause := errors.New("enough")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { end(cause) })
		began = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, cause) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
