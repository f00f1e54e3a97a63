package epoll

import (
	"sync"
	"time"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice/pipe"
)

// bufferSize is the most that one read takes, in bytes.
const bufferSize = 64 << 10

// pipeSize is the capacity set for a pipe while there are few.
const pipeSize = quota.MaxPipePages << 12

// stock lends what flows carry bytes with: a loop has one for all of its connections.
type stock struct {
	poll    *poller
	account *quota.Account
	memory  *Memory // nil: nobody keeps the buffered bytes of flows
	pipes   pipePool

	scratch      *[bufferSize]byte // for bytes that are read and sent at once
	scratchIndex uint32            // of scratch in the memory
	bulk         bool              // a splice carried something in this iteration, and the next load is to grow
}

func (s *stock) open(p *poller, account *quota.Account, k *keeping) {
	s.poll, s.account, s.memory = p, account, k.memory
	s.pipes.poll, s.pipes.Account = p, account
	s.pipes.Opened, s.pipes.Closed, s.pipes.Usable = k.pipeOpened, k.pipeClosed, k.pipeUsable
	if k.memory != nil {
		s.scratch = k.memory.takeBuffer()
		s.scratchIndex, _ = k.memory.index(s.scratch)
	} else {
		s.scratch = new([bufferSize]byte)
	}
}

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// buffer lends a buffer, of the memory as long as that has some.
func (s *stock) buffer() (b *[bufferSize]byte) {
	s.account.Buffers.Take()
	if s.memory != nil {
		b = s.memory.takeBuffer()
	}
	if b == nil {
		b = buffers.Get().(*[bufferSize]byte)
	}
	return b
}

// giveBuffer takes a buffer back.
func (s *stock) giveBuffer(b *[bufferSize]byte) {
	if s.memory == nil || !s.memory.giveBuffer(b) {
		buffers.Put(b)
	}
	s.account.Buffers.Give()
}

// pipePool is a loop's pool of pipes.
type pipePool struct {
	pipe.Pool
	poll  *poller
	timer timer
}

// take returns a pipe, false if there can be none: then bytes are copied.
func (p *pipePool) take() (pipe.Pipe, bool) {
	q, ok, expire := p.Take(p.poll.now)
	p.expires(expire)
	return q, ok
}

// give takes an empty pipe back.
func (p *pipePool) give(q pipe.Pipe) { p.expires(p.Give(q)) }

func (p *pipePool) expires(later bool) {
	if later {
		p.timer.owner = p
		p.poll.timers.set(&p.timer, p.poll.now+pipe.Idle)
	}
}

// expired closes the pipes that were not needed for a while.
func (p *pipePool) expired(now time.Duration) {
	if p.Expire() {
		p.poll.timers.set(&p.timer, now+pipe.Idle)
	}
}
