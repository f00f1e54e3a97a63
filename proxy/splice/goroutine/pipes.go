package goroutine

import (
	"sync"
	"time"

	"github.com/portald/portald/proxy/splice/pipe"
)

// pipes is the engine's pool of pipes.
type pipes struct {
	mu     sync.Mutex
	pool   pipe.Pool
	closed bool
}

func (p *pipes) take(now time.Duration) (pipe.Pipe, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok, _ := p.pool.Take(now) // all are usable at once
	return q, ok
}

// give takes an empty pipe back.
func (p *pipes) give(q pipe.Pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		q.Close()
	} else if p.pool.Give(q) {
		time.AfterFunc(pipe.Idle, p.expire)
	}
}

func (p *pipes) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool.Expire() {
		time.AfterFunc(pipe.Idle, p.expire)
	}
}

func (p *pipes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pool.Close()
	p.closed = true
}
