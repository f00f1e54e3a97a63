package proxy

import "context"

// Calls passes functions to the goroutine of the Loop, which calls them between two syncs: other goroutines read the
// loop's state this way, without locks.
type Calls chan func()

// Do has the loop call f, which must be quick, and returns once it has returned. An error means that f was not called
// before ctx ended: the loop has not begun, has ended, or waits for the host.
func (c Calls) Do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case c <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
