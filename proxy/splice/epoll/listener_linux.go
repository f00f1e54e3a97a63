package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// listenLoops is how many loops share one TCP listener: enough to accept on several cores, few enough that ten thousand
// listeners are registered fast.
const listenLoops = 4

// listener is a listening TCP socket, shared by some loops.
type listener struct {
	shared    bool // somebody keeps it: a close here would not close it
	fd        int
	acceptors []*acceptor
}

func openTCP(e *engine, f *splice.Front, fd int) *listener {
	n := &listener{shared: e.keeping.memory != nil, fd: fd}
	first := e.loops.next.Add(1)
	for i := range min(listenLoops, len(e.loops.all)) {
		a := &acceptor{front: f, fd: fd, l: e.loops.after(first, i)}
		a.timer.owner = a
		n.acceptors = append(n.acceptors, a)
	}
	for _, a := range n.acceptors {
		a.l.do(a.resume)
	}
	return n
}

// Sessions implements Socket.
func (n *listener) Sessions() splice.SessionTable { return nil }

// Drain implements Socket.
func (n *listener) Drain() { n.Close() }

// Close takes the listener from its loops, one after the other on their own goroutines; the last one serves what waits
// in its backlog, unless it is paused: then a successor does.
func (n *listener) Close() {
	last := len(n.acceptors) - 1
	var next func(i int)
	next = func(i int) {
		a := n.acceptors[i]
		a.l.do(func() {
			a.leave()
			if i < last {
				next(i + 1)
				return
			}
			for !a.paused && a.accept() {
			}
			if n.shared && !a.paused {
				sysFinish(n.fd) // also where it is kept
			} else {
				sysClose(n.fd)
			}
			a.front.ListenerClosed()
		})
	}
	next(0)
}

// File implements splice.MovingSocket.
func (n *listener) File() int { return n.fd }

// Pause implements splice.MovingSocket.
func (n *listener) Pause() {
	for _, a := range n.acceptors {
		a.l.do(func() {
			a.l.timers.stop(&a.timer)
			a.unwatch()
			a.paused = true
		})
	}
}

// Resume implements splice.MovingSocket: it is this daemon's alone.
func (n *listener) Resume() {
	for _, a := range n.acceptors {
		a.l.do(func() {
			if a.paused = false; a.closed {
				return
			}
			if guardAccepted(a.fd); !a.watched {
				a.resume()
			}
		})
	}
}

// acceptor accepts from a listener on one loop.
type acceptor struct {
	front   *splice.Front // this and fd are copies of the listener's, which spares each connection a cache miss
	fd      int
	l       *loop
	id      uint32
	watched bool
	paused  bool
	closed  bool
	failed  int // accepts in a row, for a shortage
	timer   timer
}

// acceptBatch is how many connections are accepted at once after a long iteration.
const acceptBatch = 16

// ready accepts one connection; the kernel reports readiness again while there are more. To try whether there are costs
// a good part of an accept, since the kernel allocates a socket before it looks: so it is tried only after an iteration
// so long that several may have come.
func (a *acceptor) ready(uint32, uint8) {
	for n := 1; a.accept() && a.l.long && n < acceptBatch; n++ {
	}
}

// accept accepts one connection and starts its life. False: none waits, or none can be accepted now.
func (a *acceptor) accept() bool {
	var sa sockaddr
	fd, errno := sysAccept(a.fd, &sa)
	if errno == 0 {
		sysCloseByReset(fd, 1) // if guardAccepted did not; before anything else, which may wait for a garbage collection
		a.failed = 0
		a.l.accept(a.front, fd, sa.addr())
		return true
	}
	switch errno {
	case unix.EAGAIN:
		return false
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		a.backOff(errno)
		return false
	}
	return errno != unix.EBADF && errno != unix.EINVAL // else the client closed it before it was accepted
}

// backOff leaves the listener alone for a while: it stays readable, so that the loop would spin.
func (a *acceptor) backOff(err error) {
	a.l.core.Shortages().AcceptFailed(err)
	if a.closed || a.paused {
		return
	}
	a.unwatch()
	a.failed++
	a.l.timers.set(&a.timer, a.l.now+splice.ShortagePause().After(a.failed))
}

func (a *acceptor) expired(time.Duration) { a.resume() }

// resume watches the listener. The kernel wakes one of the loops that watch it for a connection.
func (a *acceptor) resume() {
	id, e := a.l.watch(a.fd, unix.EPOLLIN|unix.EPOLLEXCLUSIVE, a, 0)
	a.id, a.watched = id, e == 0
	if e != 0 {
		a.backOff(e)
	}
}

func (a *acceptor) unwatch() {
	if a.watched {
		a.watched = false
		a.l.unwatch(a.fd, a.id)
	}
}

func (a *acceptor) leave() {
	a.closed = true
	a.l.timers.stop(&a.timer)
	a.unwatch()
}
