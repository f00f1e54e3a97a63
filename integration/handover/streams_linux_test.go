package handover

import (
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// stream is a connection that is checked byte by byte: what is sent at a place in the stream depends on the place, and
// comes back the same.
type stream struct {
	c     net.Conn
	kind  string
	began time.Time
	moved atomic.Int64 // bytes that came back
	err   error        // nil: as it should be
	ended chan struct{}
}

// streams are some of them, until stop.
type streams struct {
	bed     *bed.Bed
	all     []*stream
	stopped atomic.Bool
	wg      sync.WaitGroup
}

// at is the byte at a place of the stream with that salt.
func at(salt byte, place int64) byte {
	return byte(place>>16) ^ byte(place>>8)*31 ^ byte(place)*7 ^ salt
}

func pattern(b []byte, salt byte, place int64) {
	for i := range b {
		b[i] = at(salt, place+int64(i))
	}
}

// wrong returns an error if these are not the bytes at that place.
func wrong(b []byte, salt byte, place int64) error {
	for i := range b {
		if want := at(salt, place+int64(i)); b[i] != want {
			return fmt.Errorf("byte %d is %#x, want %#x", place+int64(i), b[i], want)
		}
	}
	return nil
}

// serveEcho has a pod send back what it gets, and end its stream when the client does.
func serveEcho(b *bed.Bed, pod int) {
	b.Serve(b.Net.Pod(pod), bed.PodPort, func(c *net.TCPConn) {
		_, _ = io.Copy(c, c) // the client finds what is wrong
		_ = c.CloseWrite()
	})
}

// open opens n streams of a kind and has each go on until stop.
func (s *streams) open(b *bed.Bed, to, kind string, n int, carry func(*stream, byte) error) {
	b.Helper()
	s.bed = b
	for i := range n {
		c, err := bed.Dial(10*time.Minute, b.Client, "tcp", to)
		b.Must(err)
		st := &stream{c: c, kind: kind, began: time.Now(), ended: make(chan struct{})}
		s.all = append(s.all, st)
		s.wg.Go(func() {
			defer close(st.ended)
			defer c.Close()
			st.err = carry(st, byte(i))
		})
	}
}

// unechoed is how many bytes of a stream may be under way: more than portald's buffers hold while the client does not
// read, and less than fills the server's as well. Where both directions are full and a receiver drops what is beyond
// its memory, Linux 6.18 may end in a deadlock: the receiver takes each later segment for one beyond its window of 0,
// the acknowledgements among them, so that its own data wait for ever. Two plain sockets show it, without portald.
const unechoed = 8 << 20

// bulk sends as fast as it can, and reads what comes back; at the end it closes its side, and all has to come.
func (s *streams) bulk(st *stream, salt byte) error { return s.carry(st, st.c, salt) }

// carry is bulk whose answers come by a reader.
func (s *streams) carry(st *stream, back io.Reader, salt byte) error {
	sent, came := make(chan int64, 1), make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 96<<10)
		place := int64(0)
		for !s.stopped.Load() {
			for place-st.moved.Load() > unechoed {
				<-came
			}
			n := 1 + int(place%int64(len(buf)-1))
			pattern(buf[:n], salt, place)
			w, err := st.c.Write(buf[:n])
			if place += int64(w); err != nil {
				break
			}
		}
		_ = st.c.(interface{ CloseWrite() error }).CloseWrite()
		sent <- place
	}()
	got, err := st.read(back, came, salt)
	if err != nil {
		_ = st.c.Close()
		st.moved.Store(math.MaxInt64)
		notify(came)
		<-sent
		return err
	}
	if all := <-sent; all != got {
		return fmt.Errorf("%d bytes came back of %d", got, all)
	}
	return nil
}

// notify tells a waiting goroutine, and waits for none.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read reads the stream to its end.
func (st *stream) read(back io.Reader, came chan<- struct{}, salt byte) (got int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := back.Read(buf)
		if bad := wrong(buf[:n], salt, got); bad != nil {
			return got, bad
		}
		got += int64(n)
		st.moved.Store(got)
		notify(came)
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, fmt.Errorf("after %d bytes: %w", got, err)
		}
	}
}

// slow is bulk whose reader sleeps: buffers and pipes are full on the way back.
func (s *streams) slow(st *stream, salt byte) error {
	_ = st.c.(*net.TCPConn).SetReadBuffer(4 << 10)
	return s.carry(st, slowReader{st.c, &s.stopped}, salt)
}

type slowReader struct {
	net.Conn
	stopped *atomic.Bool
}

func (r slowReader) Read(b []byte) (int, error) {
	if !r.stopped.Load() {
		time.Sleep(20 * time.Millisecond)
	}
	return r.Conn.Read(b)
}

// asks sends a few bytes every 20 ms and waits for them.
func (s *streams) asks(st *stream, salt byte) error {
	place, buf, answer := int64(0), make([]byte, 300), make([]byte, 300)
	for !s.stopped.Load() {
		pattern(buf, salt, place)
		if _, err := st.c.Write(buf); err != nil {
			return fmt.Errorf("after %d bytes: %w", place, err)
		}
		if _, err := io.ReadFull(st.c, answer); err != nil {
			return fmt.Errorf("after %d bytes: %w", place, err)
		}
		if err := wrong(answer, salt, place); err != nil {
			return err
		}
		place += int64(len(buf))
		st.moved.Store(place)
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// idle sends nothing until the end, when it asks once.
func (s *streams) idle(st *stream, salt byte) error {
	for !s.stopped.Load() {
		time.Sleep(50 * time.Millisecond)
	}
	return s.asksOnce(st, salt)
}

func (s *streams) asksOnce(st *stream, salt byte) error {
	buf := make([]byte, 1000)
	pattern(buf, salt, 0)
	if _, err := st.c.Write(buf); err != nil {
		return err
	}
	if _, err := io.ReadFull(st.c, buf); err != nil {
		return err
	}
	return wrong(buf, salt, 0)
}

// endTime is how long streams may take to end: with full buffers on the way, beside other tests.
const endTime = 40 * time.Second

// stop ends all, and returns those that broke. Of those that do not end it logs what the sockets of all hosts hold.
func (s *streams) stop() (broken []*stream) {
	s.stopped.Store(true)
	ended := make(chan struct{})
	go func() { s.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(bed.VMTimeout(endTime)):
		s.showStalled()
		<-ended
	}
	for _, st := range s.all {
		if st.err != nil {
			broken = append(broken, st)
		}
	}
	return broken
}

// showStalled logs the streams that have not ended and the sockets on their way, and ends them.
func (s *streams) showStalled() {
	s.bed.Helper()
	for _, h := range []*topology.Host{s.bed.Client, s.bed.Node, s.bed.Net.Pod(0)} {
		sockets, err := s.bed.Try(h, "ss", "-tionpmHO")
		s.bed.Logf("sockets of %s: %v\n%s", h.Name, err, sockets)
	}
	for _, st := range s.all {
		select {
		case <-st.ended:
		default:
			s.bed.Logf("%s: a stream of kind %s has not ended, %d bytes came back",
				bed.LocalAddr(st.c), st.kind, st.moved.Load())
			_ = st.c.SetDeadline(time.Now())
		}
	}
}
