package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// How often clients do what they do, and for how long at most.
const (
	askEvery    = 250 * time.Millisecond
	streamEvery = 20 * time.Millisecond
	sayEvery    = 50 * time.Millisecond
	longest     = 8 * time.Second // a stream or a UDP socket
	heardWithin = 3 * time.Second // an answer to a datagram
)

// client says which host sends requests to which address.
type client struct {
	*world
	from    *topology.Host
	service string // empty: whoever has the address that moves
	to      string
}

// load starts all clients, which go on until ctx ends.
func (w *world) load(ctx context.Context, all *sync.WaitGroup) {
	node := w.Node.IPv4.String()
	for _, from := range []*topology.Host{w.Client, w.Net.Pod(0), w.Node} {
		for i, name := range []string{still, flips, rolls} {
			four, six := w.ips[name][0], w.ips[name][1]
			for _, to := range []string{bed.HostPort(four, 80), bed.HostPort(six, 80), bed.HostPort(node, w.nodePort+i)} {
				c := client{w, from, name, to}
				all.Go(func() { c.repeat(ctx, c.asks) })
			}
			c := client{w, from, name, bed.HostPort(four, 80)}
			all.Go(func() { c.repeat(ctx, c.talks) })
			all.Go(func() { c.repeat(ctx, func(context.Context) { c.streams(ctx) }) })
		}
		for _, to := range []string{bed.HostPort(w.moving, 80), bed.HostPort(node, w.movingPort)} {
			c := client{w, from, "", to}
			all.Go(func() { c.repeat(ctx, c.asks) })
		}
	}
}

// repeat has a client do the same again and again.
func (c client) repeat(ctx context.Context, do func(context.Context)) {
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(2 * askEvery)))):
		}
	}
}

var (
	errWrong   = errors.New("wrong bytes")
	errMissing = errors.New("a clean end before all bytes")
)

// noise is the data of clients: each sends a piece of it, from any offset.
var noise = func() []byte {
	all := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(all) // it never fails
	return all
}()

func piece(most int) []byte {
	n := rand.IntN(most)
	from := rand.IntN(len(noise) - n)
	return noise[from : from+n]
}

// greeting reads the name of the Service that a server tells.
func greeting(c net.Conn) (string, error) {
	var name []byte
	for b := make([]byte, 1); ; name = append(name, b[0]) {
		if _, err := io.ReadFull(c, b); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: %d of the greeting", errMissing, len(name))
			}
			return "", err
		}
		if b[0] == '\n' {
			return string(name), nil
		}
	}
}

func (c client) isGreeted(conn net.Conn, want string) error {
	name, err := greeting(conn)
	if err == nil && name != want {
		err = fmt.Errorf("%w: of Service %q, want %q", errWrong, name, want)
	}
	return err
}

// expects is the name that a server is to tell now; empty: none is there.
func (c client) expects() string {
	if c.service != "" {
		return c.service
	}
	return c.owner()
}

// asks opens one connection: some bytes, the end of this side, and all of them back.
func (c client) asks(context.Context) {
	want := c.expects()
	if want == "" {
		return
	}
	c.requests.Add(1)
	f := c.failure("connection")
	if f.err = c.ask(&f, want); f.err != nil {
		c.fails(f)
	}
}

func (c client) ask(f *failure, want string) error {
	conn, err := bed.Dial(bed.AnswerTimeout, c.from, "tcp", c.to)
	if err != nil {
		return err
	}
	defer conn.Close()
	f.client = bed.LocalAddr(conn)
	if err := c.isGreeted(conn, want); err != nil {
		return err
	}
	sent := piece(64 << 10)
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		failed <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-failed); err != nil {
		return fmt.Errorf("after %d bytes of %d: %w", len(got), len(sent), err)
	}
	return compare(got, sent)
}

func compare(got, sent []byte) error {
	switch {
	case !bytes.HasPrefix(sent, got):
		return fmt.Errorf("%w within %d", errWrong, len(got))
	case len(got) < len(sent):
		return fmt.Errorf("%w: %d of %d", errMissing, len(got), len(sent))
	}
	return nil
}

// streams opens a connection that stays, and exchanges some bytes now and then; it ends as asks does.
func (c client) streams(ctx context.Context) {
	c.streamed.Add(1)
	f := c.failure("stream")
	if f.err = c.stream(ctx, &f); f.err != nil {
		c.fails(f)
	}
}

func (c client) stream(ctx context.Context, f *failure) error {
	conn, err := bed.Dial(bed.AnswerTimeout, c.from, "tcp", c.to)
	if err != nil {
		return err
	}
	defer conn.Close()
	f.client = bed.LocalAddr(conn)
	if err := c.isGreeted(conn, c.service); err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(rand.Int64N(int64(longest))))
	for moved := 0; ctx.Err() == nil && time.Now().Before(end); time.Sleep(streamEvery) {
		sent := piece(4 << 10)
		_ = conn.SetDeadline(time.Now().Add(bed.AnswerTimeout))
		if _, err := conn.Write(sent); err != nil {
			return fmt.Errorf("after %d bytes: %w", moved, err)
		}
		got := make([]byte, len(sent))
		n, err := io.ReadFull(conn, got)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errMissing
		}
		if moved += n; err != nil {
			return fmt.Errorf("after %d bytes: %w", moved, err)
		}
		if err := compare(got, sent); err != nil {
			return err
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite() // what is wrong with it the rest tells
	rest, err := io.ReadAll(conn)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w after the last", errWrong)
	}
	return err
}

// talks sends numbered datagrams from one socket. One that nobody answers is a failure of its own.
func (c client) talks(ctx context.Context) {
	f := c.failure("datagram")
	conn, err := bed.Dial(bed.AnswerTimeout, c.from, "udp", c.to)
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // its datagrams are counted: on a busy machine they take longer
	}
	if f.err = err; err != nil {
		f.overtaken = time.Now()
		c.fails(f)
		return
	}
	defer conn.Close()
	number := int(longest / sayEvery)
	sent, heard := make([]time.Time, 0, number), make([]atomic.Pointer[time.Time], number)
	wrong := make(chan error, 1)
	go func() { wrong <- c.hear(conn, heard) }()
	for i := range 1 + rand.IntN(number) {
		c.said.Add(1)
		sent = append(sent, time.Now())
		_, _ = fmt.Fprint(conn, i) // one that is refused is not heard either
		if time.Sleep(sayEvery); ctx.Err() != nil {
			break
		}
	}
	bed.Within(time.Until(sent[len(sent)-1].Add(heardWithin)), func() bool {
		for i := range sent {
			if heard[i].Load() == nil {
				return false
			}
		}
		return true
	})
	conn.Close()
	f = c.failure("datagram")
	f.client = bed.LocalAddr(conn)
	if err := <-wrong; err != nil {
		f.err = err
		c.fails(f)
	}
	f.overtaken = time.Now()
	for i, at := range slices.Backward(sent) {
		if reply := heard[i].Load(); reply == nil {
			f.began, f.err = at, fmt.Errorf("datagram %d of %d is not answered", i, len(sent))
			c.fails(f)
		} else if reply.Before(f.overtaken) {
			f.overtaken = *reply
		}
	}
}

// hear takes answers until the socket is closed.
func (c client) hear(conn net.Conn, heard []atomic.Pointer[time.Time]) error {
	buf := make([]byte, 100)
	for {
		n, err := conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil { // an ICMP error
			continue
		}
		name, number, _ := strings.Cut(string(buf[:n]), " ")
		var i int
		if _, err := fmt.Sscan(number, &i); err != nil || name != c.service || i >= len(heard) {
			return fmt.Errorf("%w: %q", errWrong, buf[:n])
		}
		now := time.Now()
		heard[i].CompareAndSwap(nil, &now)
	}
}
