package epoll

import (
	"sync"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice/pipe"
)

// bufferSize is what one read takes at the most.
const bufferSize = 64 << 10

// pipeSize is the capacity asked for a pipe while there are few.
const pipeSize = quota.MaxPipePages << 12

// worthSplicing is from how many bytes on splice(2) through a pipe is cheaper than a copy.
const worthSplicing = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// pipePool is a loop's pool of pipes.
type pipePool struct {
	pipe.Pool
	l     *loop
	timer timer
}

// take returns a pipe, false if there can be none: then bytes are copied.
func (p *pipePool) take() (pipe.Pipe, bool) {
	q, ok, expire := p.Take(p.l.now)
	p.expires(expire)
	return q, ok
}

// give takes an empty pipe back.
func (p *pipePool) give(q pipe.Pipe) { p.expires(p.Give(q)) }

func (p *pipePool) expires(later bool) {
	if later {
		p.timer.owner = p
		p.l.timers.set(&p.timer, p.l.now+pipe.Idle)
	}
}

// expired closes the pipes that were not needed for a while.
func (p *pipePool) expired(now time.Duration) {
	if p.Expire() {
		p.l.timers.set(&p.timer, now+pipe.Idle)
	}
}
