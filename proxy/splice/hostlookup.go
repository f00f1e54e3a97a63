package splice

import "sync"

// hostLookups runs lookups at the host that may block, one after the other, on a goroutine of their own. Safe for
// concurrent use.
type hostLookups struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	ended   bool
	wg      sync.WaitGroup
}

// add queues a lookup. After end it is dropped.
func (l *hostLookups) add(lookup func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.queue = append(l.queue, lookup)
	if !l.running {
		l.running = true
		l.wg.Go(l.run)
	}
}

// run does lookups until none is left.
func (l *hostLookups) run() {
	for {
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.running = len(queue) > 0
		l.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, lookup := range queue {
			lookup()
		}
	}
}

// end drops the lookups that are queued and waits for the one that is running.
func (l *hostLookups) end() {
	l.mu.Lock()
	l.ended, l.queue = true, nil
	l.mu.Unlock()
	l.wg.Wait()
}
