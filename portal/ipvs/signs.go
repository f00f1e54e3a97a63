package ipvs

import (
	"context"
	"fmt"
	"time"

	"github.com/portald/portald/portal"
)

// Disturbed tells whether the kernel holds more or less than after the last write or Audit, or others may have changed
// the Rules.
func (w *Writer) Disturbed() bool {
	if w.Rules.Disturbed() {
		return true
	}
	if w.state.Verify(func() error { return nil }) != nil || w.sized == nil {
		return false
	}
	now, known := w.kernel.sizes(w.setNames())
	return known && now != *w.sized
}

// done ends an operation: it names it in its error, or notes how much the kernel holds.
func (w *Writer) done(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("%s portals in IPVS: %w", verb, err)
	}
	w.sized = nil
	if now, known := w.kernel.sizes(w.setNames()); known {
		w.sized = &now
	}
	return nil
}

func (w *Writer) setNames() map[string]bool {
	out := map[string]bool{}
	for _, s := range w.names.sets() {
		out[s.name] = true
	}
	return out
}

// Watch looks who changes the Rules, as do the next two. Who changes the rest is not known.
func (w *Writer) Watch(d time.Duration) { w.Rules.Watch(d) }

// Listen implements portal.Writer.
func (w *Writer) Listen(ctx context.Context) error { return w.Rules.Listen(ctx) }

// Culprits implements portal.Writer.
func (w *Writer) Culprits() []portal.Culprit { return w.Rules.Culprits() }
