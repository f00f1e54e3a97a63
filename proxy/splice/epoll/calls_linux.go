package epoll

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// calls are functions that a poller's goroutine is to run. Its eventfd, which the poller watches, wakes it for them.
type calls struct {
	wakeFd int

	mu    sync.Mutex
	queue []func() // guarded by mu
	ended bool     // guarded by mu: nothing can be queued any more
}

// add queues f. False: nobody would run it any more.
func (c *calls) add(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.queue = append(c.queue, f)
	if len(c.queue) == 1 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		unix.Write(c.wakeFd, one[:]) //nolint:errcheck // an eventfd that is full wakes the poller too
	}
	return true
}

// ready implements handler.
func (c *calls) ready(uint32, uint8) {
	var b [8]byte
	unix.Read(c.wakeFd, b[:]) //nolint:errcheck // the queue may be empty too
	c.run()
}

// run calls the queued functions. False: there was none.
func (c *calls) run() bool {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, f := range queue {
		f()
	}
	return len(queue) > 0
}

func (c *calls) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
}
