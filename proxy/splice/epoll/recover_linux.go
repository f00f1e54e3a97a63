package epoll

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// Abort resets a connection of a predecessor, with which nobody can go on.
func Abort(files ...int) {
	for _, fd := range files {
		sysAbort(fd)
	}
}

// Finish closes one whose both ends were passed on: what the kernel still has of it arrives.
func Finish(files ...int) {
	for _, fd := range files {
		sysFinish(fd)
	}
}

// Errors of connections of a predecessor that nobody can go on with.
var (
	ErrEnded    = errors.New("it has ended")
	ErrFinished = fmt.Errorf("%w: both its ends were passed on", ErrEnded)
	ErrNoProof  = errors.New("what the predecessor had read and not written is not known")
	ErrGiven    = fmt.Errorf("%w: another portald went on with it", ErrNoProof)
	errNoBuffer = fmt.Errorf("%w: a buffer of another", ErrNoProof)
	errNoPipe   = fmt.Errorf("%w: a pipe that nobody keeps", ErrNoProof)
	errUrgent   = fmt.Errorf("%w: urgent data, or no buffer", ErrNoProof)
	errNoCounts = fmt.Errorf("%w: the kernel does not tell", ErrNoProof)
	errNotThere = fmt.Errorf("%w: it has not arrived", ErrNoProof)
)

// Recover completes what was saved of a connection when it was first kept: with what the kernel knows of its sockets by
// now, and what the predecessor, which is dead, has noted. It returns all descriptors that belong to it then. pipes are
// those of the predecessor, by their ids; one that is used is deleted. It changes nothing by which it would not work
// again.
func (m *Memory) Recover(s *splice.SavedConn, slot uint32, files []int, pipes map[uint32][2]int) ([]int, error) {
	if int(slot) >= len(m.slots) || len(files) != 2 {
		return nil, ErrNoProof
	}
	client, ok1 := countsOf(files[0])
	endpoint, ok2 := countsOf(files[1])
	if !ok1 || !ok2 {
		return nil, errNoCounts
	}
	if m.slots[slot].up.given.Load() != 0 {
		return nil, ErrGiven
	}
	up := &recovered{&s.Up, &m.slots[slot].up, &client, &endpoint, files[0]}
	down := &recovered{&s.Down, &m.slots[slot].down, &endpoint, &client, files[1]}
	files = files[:2:2]
	switch {
	case client.closed && endpoint.closed:
		return nil, ErrEnded
	case client.closed && !up.endOfSource(down):
		return m.recoverBroken(s, record.Client, up, down, files, pipes)
	case endpoint.closed && !down.endOfSource(up):
		return m.recoverBroken(s, record.Endpoint, down, up, files, pipes)
	}
	var used []uint32
	for _, r := range []*recovered{up, down} {
		err := m.recover(r, pipes)
		if err == nil && r.to.inOrder && r.Carried != r.Passed {
			err = ErrNoProof
		}
		if err != nil {
			return nil, err
		}
		if r.InPipe > 0 {
			id := r.noted.pipe.Load()
			pair := pipes[id]
			files, used = append(files, pair[:]...), append(used, id)
		}
	}
	s.ClientEOF, s.EndpointEOF = s.Up.EOF, s.Down.EOF
	if s.Up.EOF && s.Down.EOF {
		return nil, ErrFinished
	}
	for _, id := range used {
		delete(pipes, id)
	}
	return files, nil
}

// recovered is a direction that is recovered.
type recovered struct {
	*splice.SavedFlow
	noted    *flowMemory
	from, to *counts
	source   int
}

// endOfSource tells whether the source is closed because both ways had ended: a FIN was passed on to it by the other
// direction, and its own has come. Bytes that it has sent may still have to be read, and its FIN to be passed on.
func (r *recovered) endOfSource(other *recovered) bool {
	if errno, known := r.noted.failure(r.source); errno != 0 || !known || other.noted.ended.Load() == 0 {
		return false
	}
	r.from.received--
	r.from.sent--
	r.from.finSent, r.from.inOrder = true, true
	return true
}

// failure is the error of the flow's source, 0 if it has none. The kernel tells it once: it is not known where somebody
// has read it and could not note it any more.
func (f *flowMemory) failure(source int) (errno syscall.Errno, known bool) {
	if e := f.broken.Load(); e != 0 {
		return syscall.Errno(e), true
	}
	if f.errorTaken.Swap(1) != 0 {
		return 0, false
	}
	errno = sysError(source)
	if f.broken.Store(uint32(errno)); errno == 0 {
		f.errorTaken.Store(0)
	}
	return errno, true
}

// recoverBroken is Recover of a connection one side of which has failed. Only bytes that this side has sent are left of
// it.
func (m *Memory) recoverBroken(
	s *splice.SavedConn, side record.Side, left, vain *recovered, files []int, pipes map[uint32][2]int,
) ([]int, error) {
	errno, _ := left.noted.failure(left.source)
	ended := vain.noted.ended.Load() != 0 // the stream to it: by a FIN
	switch {
	case errno == 0: // closed by the predecessor, most likely
		return nil, ErrEnded
	case errno == unix.EPIPE, left.to.finSent: // it had sent a FIN, which is counted
		left.from.received--
	case errno != unix.ECONNRESET, ended && sysUnacknowledged(left.source) > 0: // perhaps
		return nil, ErrNoProof
	}
	if err := m.recover(left, pipes); err != nil {
		return nil, err
	}
	vain.Carried += vain.from.received - vain.Received
	vain.Passed = min(vain.Passed+vain.to.sent-vain.Sent, vain.Carried)
	vain.FIN, vain.EOF = ended, ended
	if s.ClientEOF, s.EndpointEOF = s.Up.EOF, s.Down.EOF; s.Up.EOF && s.Down.EOF {
		return nil, ErrEnded
	}
	s.Broken = &splice.SavedBreak{Side: side, Errno: errno}
	if left.InPipe > 0 {
		id := left.noted.pipe.Load()
		pair := pipes[id]
		files = append(files, pair[:]...)
		delete(pipes, id)
	}
	return files, nil
}

// recover does so for one direction. It has a pipe if InPipe is positive.
func (m *Memory) recover(s *recovered, pipes map[uint32][2]int) error {
	noted := s.noted
	s.Carried += s.from.received - s.Received
	s.Passed += s.to.sent - s.Sent
	s.FIN, s.EOF = s.to.finSent, s.to.finSent
	missing := s.Carried - s.Passed
	id := noted.pipe.Load()
	if p, ok := pipes[id]; ok && missing > 0 {
		n, err := unix.IoctlGetInt(p[0], unix.SIOCINQ) // FIONREAD
		if err != nil || n < 0 || int64(n) > missing {
			return ErrNoProof
		}
		if n > 0 {
			s.InPipe = n
			missing -= int64(n)
		}
	}
	switch {
	case missing == 0:
		return nil
	case noted.unprovable.Load() != 0:
		return errUrgent
	case id != 0:
		return errNoPipe
	case missing < 0:
		if noted.peeking.Load() == 0 || !discard(s.source, int(-missing)) {
			return errNotThere
		}
		s.Carried = s.Passed
		return nil
	}
	e := noted.entries[noted.current.Load()&1]
	at := s.Passed - e.start
	if e.buffer >= maxBuffers || at < 0 || at+missing > bufferSize {
		return errNoBuffer
	}
	s.Rest = slices.Clone(m.buffer(e.buffer)[at : at+missing])
	return nil
}

// discard takes n bytes from a socket. False: it does not have so many.
func discard(fd, n int) bool {
	if n > bufferSize {
		return false
	}
	got, e := sysRecv(fd, make([]byte, n))
	return e == 0 && got == n
}
