package splice

import "sync"

// asker puts questions to the host that may take their time, one after the other, while the loops go on. Safe for
// concurrent use.
type asker struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	ended   bool
	wg      sync.WaitGroup
}

// ask has a question put soon. After end it is not put any more.
func (a *asker) ask(question func()) {
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

// run ends when nothing is left to ask.
func (a *asker) run() {
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

// end waits for the questions that are being put.
func (a *asker) end() {
	a.mu.Lock()
	a.ended, a.queue = true, nil
	a.mu.Unlock()
	a.wg.Wait()
}
