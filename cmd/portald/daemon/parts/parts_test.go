package parts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// events has the starts and stops of parts, in order.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, what)
}

// running is a part that notes when its goroutine ends. The goroutine fails at once with err unless that is nil.
func (e *events) running(name string, err error) *Stage {
	return NewStage(func(ctx context.Context) error {
		if err != nil {
			return err
		}
		<-ctx.Done()
		e.add(name + " ended")
		return nil
	})
}

// Parts stop in the reverse of the order in which they started, each after the one before has ended.
func TestPartsStopInReverse(t *testing.T) {
	e := &events{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	parts := []Part{e.running("first", nil), e.running("second", nil), e.running("third", nil)}
	if err := Run(ctx, parts, func() { e.add("started") }, func() { e.add("stopping") }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"started", "stopping", "third ended", "second ended", "first ended"}; !slices.Equal(e.all, want) {
		t.Errorf("%v, want %v", e.all, want)
	}
}

// A part that fails stops all of them, and its error is returned.
func TestPartThatFails(t *testing.T) {
	e, broken := &events{}, errors.New("broken")
	err := Run(t.Context(), []Part{e.running("first", nil), e.running("second", broken)}, func() {},
		func() {})
	if !errors.Is(err, broken) || !slices.Equal(e.all, []string{"first ended"}) {
		t.Errorf("%v after %v", err, e.all)
	}
}
