package proxy

import "context"

// Questions are asked by any goroutine, and answered by the loop's own between two rounds: what belongs to the loop is
// looked at there.
type Questions chan func()

// Ask has the loop call look, which must be quick, and returns when it has. An error means that it was not called
// before ctx ended: the loop has not begun, has ended, or waits for the host.
func (q Questions) Ask(ctx context.Context, look func()) error {
	answered := make(chan struct{})
	select {
	case q <- func() { defer close(answered); look() }:
		<-answered
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
