package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is how the two ends of a connection use it.
type Kind uint8

// The kinds. Of Pour, Half and Slow there are two halves, by the number of the connection: in one the client sends, in
// the other the server.
const (
	Once Kind = iota // a request and a reply; then the server closes
	Ask              // a request now and then
	Pour             // 16 KiB, twice a second
	Half             // one direction has ended; small pieces in the other
	Idle             // an exchange at the beginning and one at the end
	Slow             // one end sends as much as goes, of every fourth connection both, and the other reads little
	kinds
)

func (k Kind) String() string {
	return [...]string{"new", "asking", "bulk", "half-closed", "idle", "slow"}[k]
}

// Operations of the ends of a connection.
const (
	pourEvery  = 500 * time.Millisecond
	pourSize   = 16 << 10
	halfEvery  = time.Second
	halfSize   = 200
	slowEvery  = time.Second
	slowSize   = 2 << 10
	slowBuffer = 64 << 10
)

// greetingSize is the bytes with which a client begins: kind and number of the connection. They count as no others do.
const greetingSize = 8

func greeting(k Kind, id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(k), 's', 't', 'r'}, id)
}

// period is after how many bytes a stream repeats itself: a prime, so that nothing that is lost or doubled passes
// unnoticed.
const period = 1048583

// pattern is the repeated content of streams, with the first piece again at the end.
var pattern = func() []byte {
	source := rand.NewChaCha8([32]byte{1})
	all := make([]byte, period, period+bufSize)
	_, _ = source.Read(all) // it never fails
	return append(all, all[:bufSize]...)
}()

const bufSize = 64 << 10

// stream is one end of a connection. Each byte is compared with the one due at its place.
type stream struct {
	fd           int
	id           uint32
	kind         Kind
	server       bool
	in, out      int64 // bytes that came, and that were sent
	goal         int64 // bytes to be sent by now
	ends         bool  // to send nothing beyond goal, and then to end this direction
	inEOF, isEnd bool  // directions that have ended: incoming, and outgoing
}

// bytes is the part of a stream from a position on, of one direction.
func (s *stream) bytes(at int64, fromServer bool, n int) []byte {
	from := at + int64(s.id)*7919
	if fromServer {
		from += period / 2
	}
	return pattern[from%period:][:n]
}

var errWrongBytes = errors.New("wrong bytes")

// receive reads at most so many bytes, and returns how many. 0: none are there now, or ever.
func (s *stream) receive(buf []byte, most int) (int, error) {
	n, err := read(s.fd, buf[:min(most, len(buf))])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("after %d bytes: %w", s.in, err)
	case n == 0:
		s.inEOF = true
		return 0, nil
	}
	if !bytes.Equal(buf[:n], s.bytes(s.in, !s.server, n)) {
		return 0, fmt.Errorf("%w within %d after the first %d", errWrongBytes, n, s.in)
	}
	s.in += int64(n)
	return n, nil
}

// drain reads all that is there, after an event with or without the end of the stream.
func (s *stream) drain(buf []byte, end bool) error {
	for !s.inEOF {
		n, err := s.receive(buf, len(buf))
		if err != nil || n == 0 || n < len(buf) && !end {
			return err
		}
	}
	return nil
}

// push sends what is due, as far as it goes now.
func (s *stream) push() error {
	for s.out < s.goal {
		n, err := send(s.fd, s.bytes(s.out, s.server, int(min(s.goal-s.out, bufSize))))
		if err == unix.EAGAIN || err == unix.EINTR {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes sent: %w", s.out, err)
		}
		s.out += int64(n)
	}
	if s.ends && !s.isEnd {
		s.isEnd = true
		if err := unix.Shutdown(s.fd, unix.SHUT_WR); err != nil {
			return fmt.Errorf("end after %d bytes sent: %w", s.out, err)
		}
	}
	return nil
}

// sends tells whether this end sends on in a connection of which the other end is quiet.
func (s *stream) sends() bool { return s.server == (s.id%2 == 0) }

// small has the socket buffer little.
func (s *stream) small() {
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, slowBuffer)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, slowBuffer)
}

// forEver is a goal that no stream reaches.
const forEver = 1 << 60

// first is an end's operation at the beginning, and returns how often later follows; 0: never.
func (s *stream) first() time.Duration {
	switch {
	case s.kind == Pour && s.sends():
		return pourEvery
	case s.kind == Half && s.sends():
		return halfEvery
	case s.kind == Half:
		s.goal, s.ends = halfSize, true
	case s.kind == Slow:
		s.small()
		if s.sends() || s.id/2%4 == 0 {
			s.goal = forEver
		}
		return slowEvery
	case s.kind == Idle && !s.server:
		s.goal = Size
	}
	return 0
}

// later is an end's operation from then on.
func (s *stream) later() {
	switch {
	case s.ends:
	case s.kind == Pour:
		s.goal += pourSize
	case s.kind == Half:
		s.goal += halfSize
	}
}

// finish has an end send nothing new.
func (s *stream) finish() {
	if s.kind == Slow {
		s.goal = s.out
	}
	s.ends = true
}

// StreamEnd is the outcome of one end of a connection.
type StreamEnd struct {
	ID      uint32
	Kind    Kind
	Client  string // address and port, where the client tells it
	Opened  time.Time
	In, Out int64
	Failed  string // empty: both directions have ended well
}

func (s *stream) end(err error) StreamEnd {
	e := StreamEnd{ID: s.id, Kind: s.kind, In: s.in, Out: s.out}
	if err != nil {
		e.Failed = err.Error()
	} else if !s.inEOF || !s.isEnd {
		e.Failed = "still open"
	}
	return e
}

// ticks has things done at their times, a millisecond exact.
type ticks struct {
	at    int64 // ms
	wheel [1024][]int
}

// in has due return this key after a while of at most a second.
func (t *ticks) in(d time.Duration, key int) {
	slot := &t.wheel[(t.at+max(1, d.Milliseconds()))%int64(len(t.wheel))]
	*slot = append(*slot, key)
}

// advance goes on by a millisecond and yields the keys that are due.
func (t *ticks) advance(due func(key int)) {
	t.at++
	slot := &t.wheel[t.at%int64(len(t.wheel))]
	now := *slot
	*slot = nil
	for _, key := range now {
		due(key)
	}
	if len(*slot) == 0 {
		*slot = now[:0]
	}
}

// lines passes on the lines of standard input, and is closed at its end.
func lines(in io.Reader) <-chan string {
	said := make(chan string)
	go func() {
		defer close(said)
		for s := bufio.NewScanner(in); s.Scan(); {
			said <- s.Text()
		}
	}()
	return said
}

// isReset tells whether an error is that of a connection which the other side has reset.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
