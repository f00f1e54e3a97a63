package epoll

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// Abort resets a connection of a predecessor, with which nobody can go on.
func Abort(files ...int) {
	for _, fd := range files {
		sysAbort(fd)
	}
}

// counts is what the kernel knows of a stream that a process has read and written: each is exact up to a constant.
type counts struct {
	received, sent int64 // bytes of payload, that were read of the socket, and written to it
	closed         bool  // both ways, or reset
	finSent        bool
}

// The states of TCP that count here: include/net/tcp_states.h.
const (
	tcpFinWait1 = 4 + iota
	tcpFinWait2
	tcpTimeWait
	tcpClose
	tcpCloseWait
	tcpLastAck
	_
	tcpClosing
)

// countsOf asks until nothing has arrived between the questions.
func countsOf(fd int) (c counts, known bool) {
	for range 100 {
		before, ok := tcpInfoOf(fd)
		unread, e1 := unix.IoctlGetInt(fd, unix.SIOCINQ)
		unacked, e2 := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		after, also := tcpInfoOf(fd)
		if before.State == tcpClose || after.State == tcpClose {
			return counts{closed: true}, true
		}
		if !ok || !also || e1 != nil || e2 != nil {
			return c, false
		}
		if before.Bytes_received != after.Bytes_received || before.Bytes_acked != after.Bytes_acked ||
			before.State != after.State {
			continue
		}
		c = counts{
			received: int64(after.Bytes_received) - int64(unread), sent: int64(after.Bytes_acked) + int64(unacked),
		}
		switch after.State { // a FIN counts as a byte
		case tcpCloseWait, tcpLastAck, tcpClosing, tcpTimeWait:
			c.received--
		}
		switch after.State {
		case tcpFinWait1, tcpFinWait2, tcpClosing, tcpLastAck, tcpTimeWait:
			c.sent--
			c.finSent = true
		}
		return c, true
	}
	return c, false
}

func tcpInfoOf(fd int) (i unix.TCPInfo, ok bool) {
	size := uint32(unsafe.Sizeof(i))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&size)), 0)
	return i, e == 0
}

// What makes a connection of a predecessor one that nobody can go on with.
var (
	ErrEnded    = errors.New("it has ended")
	ErrNoProof  = errors.New("what the predecessor had read and not written is not known")
	errNoBuffer = fmt.Errorf("%w: a buffer of another", ErrNoProof)
)

// Recover completes what was saved of a connection when it was first kept: with what the kernel knows of its sockets by
// now, and what the predecessor, which is dead, has noted. It returns all descriptors that belong to it then. pipes are
// those of the predecessor, by their ids; one that is used is deleted.
func (m *Memory) Recover(s *splice.SavedConn, slot uint32, files []int, pipes map[uint32][2]int) ([]int, error) {
	if int(slot) >= len(m.slots) || len(files) != 2 {
		return nil, ErrNoProof
	}
	client, ok1 := countsOf(files[0])
	endpoint, ok2 := countsOf(files[1])
	if !ok1 || !ok2 {
		return nil, ErrNoProof
	}
	if client.closed || endpoint.closed {
		return nil, ErrEnded
	}
	files = files[:2:2]
	for _, d := range []struct {
		flow     *splice.SavedFlow
		mem      *flowMemory
		from, to counts
		source   int
	}{
		{&s.Up, &m.slots[slot].up, client, endpoint, files[0]},
		{&s.Down, &m.slots[slot].down, endpoint, client, files[1]},
	} {
		held, err := m.recover(d.flow, d.mem, d.from, d.to, d.source, pipes)
		if err != nil {
			return nil, err
		}
		files = append(files, held...)
	}
	s.ClientEOF, s.EndpointEOF = s.Up.EOF, s.Down.EOF
	if s.Up.EOF && s.Down.EOF {
		return nil, ErrEnded
	}
	return files, nil
}

// recover does so for one direction, and returns its pipe if that holds bytes.
func (m *Memory) recover(
	s *splice.SavedFlow, noted *flowMemory, from, to counts, source int, pipes map[uint32][2]int,
) (held []int, err error) {
	s.Carried += from.received - s.Received
	s.Passed += to.sent - s.Sent
	s.FIN, s.EOF = to.finSent, to.finSent
	missing := s.Carried - s.Passed
	id := noted.pipe.Load()
	if p, ok := pipes[id]; ok && missing > 0 {
		n, err := unix.IoctlGetInt(p[0], unix.SIOCINQ) // FIONREAD
		if err != nil || n < 0 || int64(n) > missing {
			return nil, ErrNoProof
		}
		if n > 0 {
			delete(pipes, id)
			s.InPipe, held = n, p[:]
			missing -= int64(n)
		}
	}
	switch {
	case missing == 0:
		return held, nil
	case noted.unprovable.Load() != 0, id != 0:
		return nil, ErrNoProof
	case missing < 0:
		if noted.peeking.Load() == 0 || !discard(source, int(-missing)) {
			return nil, ErrNoProof
		}
		s.Carried = s.Passed
		return nil, nil
	}
	e := noted.entries[noted.current.Load()&1]
	at := s.Passed - e.start
	if e.buffer >= maxBuffers || at < 0 || at+missing > bufferSize {
		return nil, errNoBuffer
	}
	s.Rest = slices.Clone(m.buffer(e.buffer)[at : at+missing])
	return nil, nil
}

// discard takes n bytes from a socket. False: it does not have so many.
func discard(fd, n int) bool {
	if n > bufferSize {
		return false
	}
	got, e := sysRecv(fd, make([]byte, n))
	return e == 0 && got == n
}
