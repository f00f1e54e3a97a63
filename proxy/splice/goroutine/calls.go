package goroutine

import "sync"

// calls are made one after the other, in the order in which they were asked for.
type calls struct {
	mu     sync.Mutex
	queue  []func()
	making bool // somebody makes them
}

// add queues a call, which the engine waits for. Not ok: it has ended. First: nobody makes calls, and somebody has to
// begin.
func (c *calls) add(f func(), e *Engine) (first, ok bool) {
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

// next takes the next call; nil: there is none, and nobody makes calls from now on.
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
