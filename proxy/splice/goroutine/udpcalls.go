package goroutine

import "sync"

// calls is a queue of functions that run one after the other, in order.
type calls struct {
	mu     sync.Mutex
	queue  []func()
	making bool // a goroutine runs the queue
}

// add queues f; Run waits for it. ok is false if the engine has ended. first is true if no goroutine runs the queue:
// the caller has to start one.
func (c *calls) add(f func(), e *shared) (first, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.count(stopping) {
		return false, false
	}
	c.queue = append(c.queue, f)
	first = !c.making
	c.making = true
	return first, true
}

// next returns the next call. After nil, no goroutine runs the queue.
func (c *calls) next() (f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.making, c.queue = false, nil
		return nil
	}
	f = c.queue[0]
	c.queue = c.queue[1:]
	return f
}
