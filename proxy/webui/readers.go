package webui

import (
	"context"
	"time"
)

// readers has a word for whenever somebody reads the page. Safe for concurrent use.
type readers chan struct{}

func newReaders() readers { return make(readers, 1) }

// here is called whenever one asks.
func (r readers) here() {
	select {
	case r <- struct{}{}:
	default:
	}
}

// await waits until one asks; false: ctx has ended.
func (r readers) await(ctx context.Context) bool {
	select {
	case <-r:
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitEnd waits until none has asked for so long, or ctx ends.
func (r readers) awaitEnd(ctx context.Context, quiet time.Duration) {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-r:
			timer.Reset(quiet)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
