package handover

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/bed"
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

// bulk sends as fast as it can, and reads what comes back; at the end it closes its side, and all has to come.
func (s *streams) bulk(st *stream, salt byte) error {
	sent := make(chan int64, 1)
	go func() {
		buf := make([]byte, 96<<10)
		place := int64(0)
		for !s.stopped.Load() {
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
	got, err := st.read(salt)
	if err != nil {
		_ = st.c.Close()
		<-sent
		return err
	}
	if all := <-sent; all != got {
		return fmt.Errorf("%d bytes came back of %d", got, all)
	}
	return nil
}

// read reads the stream to its end.
func (st *stream) read(salt byte) (got int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := st.c.Read(buf)
		if bad := wrong(buf[:n], salt, got); bad != nil {
			return got, bad
		}
		got += int64(n)
		st.moved.Store(got)
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
	return s.bulk(&stream{c: slowReader{st.c.(*net.TCPConn), &s.stopped}, ended: st.ended}, salt)
}

type slowReader struct {
	*net.TCPConn
	stopped *atomic.Bool
}

func (r slowReader) Read(b []byte) (int, error) {
	if !r.stopped.Load() {
		time.Sleep(20 * time.Millisecond)
	}
	return r.TCPConn.Read(b)
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

// stop ends all, and returns those that broke, by kind.
func (s *streams) stop() (broken []*stream) {
	s.stopped.Store(true)
	s.wg.Wait()
	for _, st := range s.all {
		if st.err != nil {
			broken = append(broken, st)
		}
	}
	return broken
}
