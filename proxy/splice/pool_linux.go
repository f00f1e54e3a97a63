package splice

import (
	"sync"

	"golang.org/x/sys/unix"
)

// bufferSize is what one read takes at the most.
const bufferSize = 64 << 10

// pipeSize is the capacity asked for a pipe (F_SETPIPE_SZ). Less is taken where the kernel grants less.
const pipeSize = 1 << 20

// worthSplicing is how many bytes at a time are cheaper to splice(2) through a pipe than to copy.
const worthSplicing = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// pipe carries bytes from socket to socket without a copy.
type pipe struct{ r, w int }

// pipePool keeps empty pipes. One loop owns it.
type pipePool struct{ free []pipe }

// pipesKept bounds the idle pipes of one loop: two descriptors each.
const pipesKept = 32

func (p *pipePool) take() (pipe, error) {
	if n := len(p.free); n > 0 {
		got := p.free[n-1]
		p.free = p.free[:n-1]
		return got, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return pipe{}, err
	}
	unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) //nolint:errcheck // a smaller pipe works too
	return pipe{fds[0], fds[1]}, nil
}

// give takes an empty pipe back. One that may hold bytes is closed instead.
func (p *pipePool) give(q pipe) {
	if len(p.free) < pipesKept {
		p.free = append(p.free, q)
		return
	}
	q.close()
}

func (p *pipePool) close() {
	for _, q := range p.free {
		q.close()
	}
	p.free = nil
}

func (q pipe) close() {
	sysClose(q.r)
	sysClose(q.w)
}
