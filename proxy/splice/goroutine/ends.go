package goroutine

import (
	"cmp"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/pipe"
)

// source is the socket that a direction reads.
type source struct {
	side  record.Side
	tcp   *net.TCPConn
	raw   syscall.RawConn
	bytes *atomic.Int64 // that were read
}

// sink is the socket that a direction writes to. It notes while that takes no bytes.
type sink struct {
	e       *shared
	side    record.Side
	tcp     *net.TCPConn
	raw     syscall.RawConn
	bytes   *atomic.Int64 // that were written
	writes  *sync.RWMutex // see conn
	blocked *splice.BlockedTime
}

// await waits for bytes, as Host.Awaits tells.
func await(raw syscall.RawConn) error {
	waited := false
	return raw.Read(func(uintptr) bool {
		before := waited
		waited = true
		return before
	})
}

// spliced is a load in a pipe.
type spliced struct {
	pipe pipe.Pipe
	n    int // bytes
}

// fill waits for bytes. None without an error: a read gets what there is, or no pipe is to be had.
func (s *source) fill(e *shared) (l spliced, err error) {
	failed := s.raw.Read(func(fd uintptr) bool {
		e.turns.begin()
		defer e.turns.end()
		var ok bool
		if l.pipe, ok = e.pipes.take(e.core.Now()); !ok {
			return true
		}
		var errno syscall.Errno
		l.n, errno = l.pipe.Fill(int(fd))
		if l.n > 0 {
			return true
		}
		e.pipes.give(l.pipe)
		switch errno {
		case 0:
			return true
		case syscall.EAGAIN:
			return pipe.Unspliceable(int(fd))
		}
		err = errno
		return true
	})
	return l, cmp.Or(failed, err)
}

// block notes that the socket takes no more bytes.
func (s *sink) block() { s.blocked.Begin(s.e.core.Now()) }

// unblock notes that it takes some again.
func (s *sink) unblock() {
	if s.blocked.Blocked() {
		s.blocked.End(s.e.core.Now())
	}
}

// blockedAfter is how long a write takes that had to wait: copying its bytes takes microseconds.
const blockedAfter = time.Millisecond

// Write writes by package net, which does not tell whether it had to wait.
func (s *sink) Write(b []byte) (n int, err error) {
	at := s.e.core.Now()
	s.blocked.Begin(at)
	n, err = s.tcp.Write(b)
	now := s.e.core.Now()
	if now-at < blockedAfter {
		now = at
	}
	s.blocked.End(now)
	return n, err
}

// send writes b, the last byte as urgent data if it is to be, and counts it.
func (s *sink) send(b []byte, urgent bool) error {
	s.writes.RLock()
	defer s.writes.RUnlock()
	n, err := s.put(b, urgent)
	s.bytes.Add(int64(n))
	return err
}

// put is send without the count.
func (s *sink) put(b []byte, urgent bool) (n int, err error) {
	send := s.e.host.Send
	if send == nil {
		return s.Write(b)
	}
	failed := s.raw.Write(func(fd uintptr) bool {
		s.unblock()
		for n < len(b) && err == nil {
			var sent int
			sent, err = send(fd, b[n:], urgent)
			n += sent
		}
		if err == syscall.EAGAIN {
			err = nil
			s.block()
			return false
		}
		return true
	})
	return n, cmp.Or(failed, err)
}

// drain sends the bytes in a pipe, and gives the pipe back.
func (s *sink) drain(l spliced) (err error) {
	failed := s.raw.Write(func(fd uintptr) bool {
		s.unblock()
		s.e.turns.begin()
		defer s.e.turns.end()
		for l.n > 0 && err == nil {
			n, errno := l.pipe.Drain(int(fd), l.n)
			switch errno {
			case 0:
				l.n -= n
				s.bytes.Add(int64(n))
			case syscall.EAGAIN:
				s.block()
				return false
			default:
				err = errno
			}
		}
		return true
	})
	if err = cmp.Or(failed, err); err != nil {
		l.pipe.Close()
		return err
	}
	s.e.pipes.give(l.pipe)
	return nil
}
