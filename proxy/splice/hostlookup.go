package splice

import "sync"

// hostLookups puts questions to the host that may block, one after the other, on a goroutine of its own. Safe for
// concurrent use.
type hostLookups struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	ended   bool
	wg      sync.WaitGroup
}

// ask queues a question. After end it is dropped.
func (a *hostLookups) ask(question func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.queue = append(a.queue, question)
	if !a.running {
		a.running = true
		a.wg.Go(a.run)
	}
}

// run puts questions until none is left.
func (a *hostLookups) run() {
	for {
		a.mu.Lock()
		queue := a.queue
		a.queue = nil
		a.running = len(queue) > 0
		a.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, question := range queue {
			question()
		}
	}
}

// end drops the questions that are queued and waits for the one that is being put.
func (a *hostLookups) end() {
	a.mu.Lock()
	a.ended, a.queue = true, nil
	a.mu.Unlock()
	a.wg.Wait()
}
