package goroutine

import "runtime"

// turns lets as many loads of bulk move at once as Go code runs on threads, less one. A splice keeps its thread until
// it is done, and the scheduler asks the network only when nobody else can run: without a free thread a small exchange
// waits for some 10 ms at each of its steps.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)-1)) }

// begin waits for a turn, which is never longer than loads take that do not block.
func (t turns) begin() { t <- struct{}{} }

func (t turns) end() { <-t }
