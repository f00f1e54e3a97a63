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

// worthSplicing is how many bytes at a time are cheaper to splice(2) through a pipe than to copy.
const worthSplicing = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// pipe carries bytes from socket to socket without a copy.
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
	spare  int           // how many of free were of no use since the timer was set
	barren time.Duration // until when nothing more is asked of the kernel, which has no pages
	timer  timer
}

// pipesKept bounds the idle pipes of one loop: two descriptors each.
const pipesKept = 32

// pipesIdle is how long a pipe is kept that is of no use, and how long none is made after the kernel had no room for one.
const pipesIdle = time.Second

// take returns a pipe, false where there is none to be had: to copy needs none.
func (p *pipePool) take() (pipe, bool) {
	if n := len(p.free); n > 0 {
		got := p.free[n-1]
		p.free = p.free[:n-1]
		p.spare = min(p.spare, n-1)
		return got, true
	}
	if p.l.now < p.barren {
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
		p.barren = p.l.now + pipesIdle
		return pipe{}, false
	}
	account.ResizePipe(q.pages - pages)
	return q, true
}

// newPipe makes a pipe of so many pages, or of fewer where the kernel grants no more: root's processes without
// CAP_SYS_RESOURCE share fs.pipe-user-pages-soft. One that is smaller than a copy's buffer is of no use.
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
		p.spare = len(p.free)
		p.l.timers.set(&p.timer, p.l.now+pipesIdle)
	}
}

// drop closes a pipe: one that may hold bytes is of no use to another connection.
func (p *pipePool) drop(q pipe) {
	q.close()
	p.l.engine.account.GivePipe(q.pages)
}

// expired closes the pipes that were of no use for a while: others of this user want the pages.
func (p *pipePool) expired(now time.Duration) {
	for _, q := range p.free[:p.spare] {
		p.drop(q)
	}
	p.free = append(p.free[:0], p.free[p.spare:]...)
	if p.spare = len(p.free); p.spare > 0 {
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
