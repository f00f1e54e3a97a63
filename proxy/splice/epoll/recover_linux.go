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
	closed         bool  // both ways, or reset: then both count a FIN too
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
		if !ok || !also || e1 != nil || e2 != nil {
			return c, false
		}
		if before.Bytes_received != after.Bytes_received || before.Bytes_acked != after.Bytes_acked ||
			before.State != after.State {
			continue
		}
		c = counts{
			received: int64(after.Bytes_received) - int64(unread), sent: int64(after.Bytes_acked) + int64(unacked),
			closed: after.State == tcpClose,
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
	up := recovered{&s.Up, &m.slots[slot].up, client, endpoint, files[0]}
	down := recovered{&s.Down, &m.slots[slot].down, endpoint, client, files[1]}
	files = files[:2:2]
	switch {
	case client.closed && endpoint.closed:
		return nil, ErrEnded
	case client.closed:
		return m.recoverBroken(s, splice.Client, up, down, files, pipes)
	case endpoint.closed:
		return m.recoverBroken(s, splice.Endpoint, down, up, files, pipes)
	}
	for _, r := range []recovered{up, down} {
		held, err := m.recover(r, pipes)
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

// recovered is a direction that is recovered.
type recovered struct {
	*splice.SavedFlow
	noted    *flowMemory
	from, to counts
	source   int
}

// recoverBroken is Recover of a connection one side of which has failed. What is left of it is what that side has sent.
func (m *Memory) recoverBroken(
	s *splice.SavedConn, side splice.Side, left, vain recovered, files []int, pipes map[uint32][2]int,
) ([]int, error) {
	errno := syscall.Errno(left.noted.broken.Load())
	if errno == 0 {
		errno = sysError(left.source)
	}
	ended := vain.noted.ended.Load() != 0 // the stream to it: by a FIN
	switch {
	case errno == 0: // closed by the predecessor, most likely
		return nil, ErrEnded
	case errno == unix.EPIPE, left.to.finSent: // it had sent a FIN, which is counted
		left.from.received--
	case errno != unix.ECONNRESET, ended && sysUnacknowledged(left.source) > 0: // perhaps
		return nil, ErrNoProof
	}
	held, err := m.recover(left, pipes)
	if err != nil {
		return nil, err
	}
	vain.Carried += vain.from.received - vain.Received
	vain.Passed = min(vain.Passed+vain.to.sent-vain.Sent, vain.Carried)
	vain.FIN, vain.EOF = ended, ended
	if s.ClientEOF, s.EndpointEOF = s.Up.EOF, s.Down.EOF; s.Up.EOF && s.Down.EOF {
		return nil, ErrEnded
	}
	s.Broken = &splice.SavedBreak{Side: side, Errno: errno}
	return append(files, held...), nil
}

// recover does so for one direction, and returns its pipe if that holds bytes.
func (m *Memory) recover(s recovered, pipes map[uint32][2]int) (held []int, err error) {
	noted := s.noted
	s.Carried += s.from.received - s.Received
	s.Passed += s.to.sent - s.Sent
	s.FIN, s.EOF = s.to.finSent, s.to.finSent
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
		if noted.peeking.Load() == 0 || !discard(s.source, int(-missing)) {
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
