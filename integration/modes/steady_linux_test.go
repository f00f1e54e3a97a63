package modes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// steady is traffic that goes on all the time, of which nothing may be lost.
type steady struct {
	b         *bed.Bed
	ctx       context.Context
	stop      func()
	wg        sync.WaitGroup
	now       atomic.Pointer[string] // what happens
	failed    errorList
	counters  []*counter
	streams   []*stream
	idles     []*talk
	sequences []*sequence

	unserved                  span // when connections to one Service may fail
	exchanges, excused, bytes atomic.Int64
	answered, unanswered      atomic.Int64           // datagrams where endpoints change
	named                     atomic.Pointer[string] // the pod that answered the last of these
}

// counter grows as long as a part of the traffic goes on.
type counter struct {
	atomic.Int64
	what string
}

// mostStreams is how many are open at most, about.
func mostStreams() int {
	if bed.InVM {
		return 14
	}
	return 48
}

// askPause is the time between two new connections of a client: short enough to fall into any gap.
func askPause() time.Duration {
	if bed.InVM {
		return 500 * time.Millisecond
	}
	return 20 * time.Millisecond
}

func newSteady(b *bed.Bed) *steady {
	s := &steady{b: b}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.say("the beginning")
	nobody := ""
	s.named.Store(&nobody)
	b.Cleanup(func() {
		s.stop()
		s.wg.Wait()
	})
	return s
}

func (s *steady) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.now.Store(&text)
}

func (s *steady) what() string { return *s.now.Load() }

func (s *steady) fail(format string, args ...any) {
	s.failed.add(fmt.Errorf("%s: %w", s.what(), fmt.Errorf(format, args...)))
}

func (s *steady) counter(format string, args ...any) *counter {
	c := &counter{what: fmt.Sprintf(format, args...)}
	s.counters = append(s.counters, c)
	return c
}

// goesOn waits until all traffic has made a step, and ends the test if something has failed.
func (s *steady) goesOn(when string) {
	s.b.Helper()
	waiting := map[*counter]int64{}
	for _, c := range s.counters {
		waiting[c] = c.Load()
	}
	bed.Within(3*bed.AnswerTimeout, func() bool {
		maps.DeleteFunc(waiting, func(c *counter, before int64) bool { return c.Load() != before })
		return len(waiting) == 0 || s.failed.first() != nil
	})
	s.b.Must(s.failed.first())
	for c := range waiting {
		s.b.Errorf("%s, %s: %s does not go on", s.what(), when, c.what)
	}
	if len(waiting) > 0 {
		s.b.FailNow()
	}
}

// asks opens one connection after the other and reads the pod's name. Those within a span that may have one may fail.
func (s *steady) asks(from *topology.Host, to string, may *span) {
	turns := s.counter("connecting to %s from %s", to, from.Name)
	s.wg.Go(func() {
		for s.ctx.Err() == nil {
			touched := may.watch()
			_, err := bed.Ask(from, "tcp", to)
			switch {
			case err == nil:
				s.exchanges.Add(1)
			case touched():
				s.excused.Add(1)
			default:
				s.fail("connection to %s from %s: %w", to, from.Name, err)
			}
			turns.Add(1)
			time.Sleep(askPause())
		}
	})
}

// span is a time that begins and ends again and again.
type span struct {
	is    atomic.Bool
	times atomic.Int64
}

func (s *span) begin() { s.times.Add(1); s.is.Store(true) }
func (s *span) end()   { s.is.Store(false) }

// watch returns a func that tells whether some of the span was between the two calls. Nothing is in a span of nil.
func (s *span) watch() (touched func() bool) {
	if s == nil {
		return func() bool { return false }
	}
	times, is := s.times.Load(), s.is.Load()
	return func() bool { return is || s.times.Load() != times }
}

// stream is a connection whose bytes come back, and are the next of a random sequence.
type stream struct {
	net.Conn
	what string
	sent atomic.Int64
	back *counter // steps of it, not bytes
}

// stream opens one, which is to last.
func (s *steady) stream(from *topology.Host, to string) {
	s.b.Helper()
	c, err := bed.Dial(bed.AnswerTimeout, from, "tcp", to)
	s.b.Must(err)
	s.b.Cleanup(func() { c.Close() })
	name, err := readLine(c)
	s.b.Must(err)
	s.b.Must(c.SetDeadline(time.Time{}))
	st := &stream{Conn: c, what: fmt.Sprintf("stream from %s to %s, %s", c.LocalAddr(), to, name)}
	st.back = s.counter("%s", st.what)
	s.streams = append(s.streams, st)
	seed := [32]byte{byte(len(s.streams))}
	s.wg.Go(func() {
		if err := st.write(s.ctx, rand.NewChaCha8(seed)); err != nil {
			s.fail("%s: after %d bytes: %w", st.what, st.sent.Load(), err)
		}
	})
	s.wg.Go(func() {
		n, err := st.check(rand.NewChaCha8(seed))
		s.bytes.Add(n)
		if err == nil && (s.ctx.Err() == nil || n != st.sent.Load()) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			s.fail("%s: after %d bytes back of %d: %w", st.what, n, st.sent.Load(), err)
		}
	})
}

// readLine reads no further than the end of a line.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil || one[0] == '\n' {
			return string(line), err
		}
		line = append(line, one[0])
	}
}

// write sends small and large pieces at a steady pace until ctx ends.
func (st *stream) write(ctx context.Context, random *rand.ChaCha8) error {
	buf := make([]byte, 32<<10)
	for n := 0; ctx.Err() == nil; n++ {
		piece := buf[:100]
		if n%16 == 0 {
			piece = buf
		}
		_, _ = random.Read(piece) // never fails
		n, err := st.Write(piece)
		st.sent.Add(int64(n))
		if err != nil {
			return err
		}
		time.Sleep(bed.VMTimeout(50 * time.Millisecond))
	}
	_ = st.SetReadDeadline(time.Now().Add(3 * bed.AnswerTimeout))
	return st.Conn.(*net.TCPConn).CloseWrite()
}

// check reads what comes back to its end.
func (st *stream) check(random *rand.ChaCha8) (total int64, err error) {
	buf, want := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := st.Read(buf)
		_, _ = random.Read(want[:n])
		if !bytes.Equal(buf[:n], want[:n]) {
			return total, errors.New("the next bytes are wrong")
		}
		total += int64(n)
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		}
		st.back.Add(1)
	}
}

// idle opens a connection that says nothing until the end.
func (s *steady) idle(to string) {
	s.b.Helper()
	s.idles = append(s.idles, converse(s.b, to))
}

// sequence is a flow of numbered datagrams that all come back.
type sequence struct {
	net.Conn
	what string
	sent int
	back []bool
	mu   sync.Mutex
}

func (s *steady) sequence(from *topology.Host, to string) {
	s.b.Helper()
	c, err := bed.Dial(bed.AnswerTimeout, from, "udp", to)
	s.b.Must(err)
	s.b.Must(c.SetDeadline(time.Time{}))
	q := &sequence{Conn: c, what: fmt.Sprintf("datagrams from %s to %s", c.LocalAddr(), to)}
	s.sequences = append(s.sequences, q)
	heard := s.counter("%s", q.what)
	s.b.Cleanup(func() { c.Close() })
	s.wg.Go(func() {
		for s.ctx.Err() == nil {
			if err := q.send(); err != nil {
				s.fail("%s: %w", q.what, err)
				return
			}
			time.Sleep(bed.VMTimeout(10 * time.Millisecond))
		}
	})
	go func() { // until the connection is closed
		if err := q.receive(func() { heard.Add(1) }); s.ctx.Err() == nil {
			s.fail("%s: %w", q.what, err)
		}
	}()
}

func (q *sequence) send() error {
	q.mu.Lock()
	n := q.sent
	q.sent++
	q.back = append(q.back, false)
	q.mu.Unlock()
	_, err := fmt.Fprintf(q, "datagram %d", n)
	return err
}

// receive calls heard for each datagram that comes back, until there is an error.
func (q *sequence) receive(heard func()) error {
	for buf := make([]byte, 100); ; {
		size, err := q.Read(buf)
		if err != nil {
			return err
		}
		if err := q.heard(string(buf[:size])); err != nil {
			return err
		}
		heard()
	}
}

func (q *sequence) heard(text string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var n int
	if _, err := fmt.Sscanf(text, "datagram %d", &n); err != nil || n >= len(q.back) || q.back[n] {
		return fmt.Errorf("%q came back, or came back twice", text)
	}
	q.back[n] = true
	return nil
}

// lost is how many have not come back.
func (q *sequence) lost() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, back := range q.back {
		if !back {
			n++
		}
	}
	return n
}

func (q *sequence) isBack(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.back[n]
}

// lostInARow is the most in a row that have not come back.
func (q *sequence) lostInARow() (most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	row := 0
	for _, back := range q.back {
		if row++; back {
			row = 0
		}
		most = max(most, row)
	}
	return most
}

// names asks for the pod's name by datagrams from one port. When endpoints change, the answer in flight may be lost,
// and no other.
func (s *steady) names(from *topology.Host, to string) {
	s.b.Helper()
	c, err := bed.Dial(bed.AnswerTimeout, from, "udp", to)
	s.b.Must(err)
	s.b.Cleanup(func() { c.Close() })
	turns := s.counter("datagrams from one port to %s", to)
	s.wg.Go(func() {
		for missed := 0; s.ctx.Err() == nil; {
			_ = c.SetDeadline(time.Now().Add(bed.VMTimeout(2 * time.Second)))
			if a, err := bed.AskUDP(c); err == nil {
				missed = 0
				s.named.Store(&a.Pod)
				s.answered.Add(1)
			} else {
				missed++
				s.unanswered.Add(1)
				if missed > 1 {
					s.fail("two datagrams to %s without an answer: %w", to, err)
				}
			}
			turns.Add(1)
			time.Sleep(bed.VMTimeout(10 * time.Millisecond))
		}
	})
}

// finish ends the traffic, and checks that all of it arrived.
func (s *steady) finish(changes int) {
	s.b.Helper()
	for _, i := range s.idles {
		i.goesOn(s.b)
	}
	s.stop()
	s.wg.Wait()
	for _, q := range s.sequences {
		bed.Within(bed.AnswerTimeout, func() bool { return q.lost() == 0 })
		if lost := q.lost(); lost > 0 {
			s.b.Errorf("%s: %d of %d are lost", q.what, lost, q.sent)
		}
	}
	if lost := s.unanswered.Load(); lost > int64(changes) {
		s.b.Errorf("%d datagrams were not answered in %d changes of endpoints", lost, changes)
	}
	if err := s.failed.first(); err != nil {
		s.b.Error(err)
	}
}

func (s *steady) String() string {
	datagrams := 0
	for _, q := range s.sequences {
		datagrams += q.sent
	}
	return fmt.Sprintf("%d streams with %d bytes, %d idle connections, %d new ones (and %d refused that may be), "+
		"%d datagrams; where endpoints change %d, %d without an answer", len(s.streams), s.bytes.Load(), len(s.idles),
		s.exchanges.Load(), s.excused.Load(), datagrams, s.answered.Load(), s.unanswered.Load())
}
