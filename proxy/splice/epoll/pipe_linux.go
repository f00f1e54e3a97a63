package epoll

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// bufferSize is what one read takes at the most.
const bufferSize = 64 << 10

// pipeSize is the capacity asked for a pipe (F_SETPIPE_SZ) while there are few.
const pipeSize = splice.MaxPipePages << 12

// worthSplicing is from how many bytes on splice(2) through a pipe is cheaper than a copy.
const worthSplicing = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// pipe moves bytes from socket to socket without a copy.
type pipe struct {
	r, w  int
	pages int64 // its capacity
}

// size is how many bytes it holds at the most.
func (q pipe) size() int { return int(q.pages) * syscall.Getpagesize() }

// pipePool keeps empty pipes. One loop owns it.
type pipePool struct {
	l      *loop
	free   []pipe
	unused int           // how many of free were not needed since the timer was set
	retry  time.Duration // when to ask the kernel for a pipe again, after it had no pages for one
	timer  timer
}

// pipesKept bounds the idle pipes of one loop: two descriptors each.
const pipesKept = 32

// pipesIdle is how long a pipe is kept that is of no use, and how long none is made after the kernel had no room for
// one.
const pipesIdle = time.Second

// take returns a pipe, false if there can be none: then bytes are copied.
func (p *pipePool) take() (pipe, bool) {
	if n := len(p.free); n > 0 {
		got := p.free[n-1]
		p.free = p.free[:n-1]
		p.unused = min(p.unused, n-1)
		return got, true
	}
	if p.l.now < p.retry {
		return pipe{}, false
	}
	account := p.l.engine.account
	pages, ok := account.TakePipe()
	if !ok {
		return pipe{}, false
	}
	q, ok := newPipe(pages)
	if !ok {
		account.GivePipe(pages)
		p.retry = p.l.now + pipesIdle
		return pipe{}, false
	}
	account.ResizePipe(q.pages - pages)
	return q, true
}

// newPipe makes a pipe of so many pages, or of fewer where the kernel grants no more: root's processes without
// CAP_SYS_RESOURCE share fs.pipe-user-pages-soft. One that is smaller than the buffer of a
// copy is not worth its system calls.
func newPipe(pages int64) (pipe, bool) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return pipe{}, false
	}
	size, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, int(pages)<<12)
	if err != nil {
		size, err = unix.FcntlInt(uintptr(fds[0]), unix.F_GETPIPE_SZ, 0)
	}
	q := pipe{fds[0], fds[1], int64(size / syscall.Getpagesize())}
	if err != nil || size < bufferSize {
		q.close()
		return pipe{}, false
	}
	return q, true
}

// give takes an empty pipe back.
func (p *pipePool) give(q pipe) {
	if len(p.free) == pipesKept {
		p.drop(q)
		return
	}
	p.free = append(p.free, q)
	if p.timer.index == 0 {
		p.timer.owner = p
		p.unused = len(p.free)
		p.l.timers.set(&p.timer, p.l.now+pipesIdle)
	}
}

// drop closes a pipe, such as one that may still hold bytes.
func (p *pipePool) drop(q pipe) {
	q.close()
	p.l.engine.account.GivePipe(q.pages)
}

// expired closes the pipes that were not needed for a while: the kernel limits the pages of all pipes of a user.
func (p *pipePool) expired(now time.Duration) {
	for _, q := range p.free[:p.unused] {
		p.drop(q)
	}
	p.free = append(p.free[:0], p.free[p.unused:]...)
	if p.unused = len(p.free); p.unused > 0 {
		p.l.timers.set(&p.timer, now+pipesIdle)
	}
}

func (p *pipePool) close() {
	for _, q := range p.free {
		p.drop(q)
	}
	p.free = nil
}

func (q pipe) close() {
	sysClose(q.r)
	sysClose(q.w)
}
