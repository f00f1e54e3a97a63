package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice"
)

// Predecessor is the daemon that serves, as its successor sees it. One goroutine uses it.
type Predecessor struct {
	Welcome
	c *channel
}

// Dial finds the daemon that hands over at a socket. ErrNone: there is none, or it has ended before it answered.
func Dial(ctx context.Context, path string, own Identity) (*Predecessor, error) {
	p := &Predecessor{}
	hello := Hello{Identity: own, Protocol: Protocol, State: State, Waits: true, Works: true}
	c, err := greet(ctx, path, hello, &p.Welcome)
	switch {
	case dead(err): // another successor may have taken its place just then
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	case err != nil:
		return nil, err
	}
	p.c = c
	return p, nil
}

// greet says Hello to whoever listens at a socket, and decodes the answer. ErrNone: nobody does.
func greet(ctx context.Context, path string, h Hello, answer any) (*channel, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, platform.PacketSocket, path)
	switch {
	case isNobody(err):
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	case err != nil:
		return nil, err
	}
	c, err := newChannel(conn.(*net.UnixConn))
	if err != nil {
		return nil, err
	}
	within := c.step
	if until, bounded := ctx.Deadline(); bounded {
		within = max(time.Millisecond, min(within, time.Until(until)))
	}
	if err = c.send(hello, h); err == nil {
		err = c.expect(welcome, answer, within)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("greet who listens at %s: %w", path, err)
	}
	return c, nil
}

// isNobody tells whether an error of a dial means that nobody listens there, or takes no more callers.
func isNobody(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.ECONNREFUSED, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Answers tells whether a daemon hands over at a socket.
func Answers(path string) bool {
	conn, err := net.Dial(platform.PacketSocket, path)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// Close ends the connection: the predecessor goes on with what it has.
func (p *Predecessor) Close() { p.c.close() }

// Begin has the predecessor change nothing any more, and returns its sockets. This process has room for so many
// descriptors.
func (p *Predecessor) Begin(files int) (*Inheritance, error) {
	if err := p.c.send(begin, Begin{files}); err != nil {
		return nil, err
	}
	e := &Inheritance{}
	for {
		message, got, err := p.c.receive(p.c.slow + p.c.step)
		if err == nil {
			e.Files = append(e.Files, got...)
			var end bool
			if end, err = e.add(message); end && err == nil {
				return e, nil
			}
		}
		if err != nil {
			closeAll(e.Files)
			return nil, fmt.Errorf("take over sockets: %w", err)
		}
	}
}

// add adds what a message brings, whose descriptors are in Files already. The last one is Begun.
func (e *Inheritance) add(message []byte) (end bool, err error) {
	switch k := kind(message[0]); k {
	case sockets:
		var s Sockets
		err = decode(message, &s)
		e.Sockets = append(e.Sockets, s.Sockets...)
	case turns:
		var t Turns
		err = decode(message, &t)
		e.Turns, e.Drained = append(e.Turns, t.Turns...), append(e.Drained, t.Drained...)
	case begun:
		var b Begun
		end, err = true, decode(message, &b)
		e.Begun = Begun{b.LastID, append(b.Drained, e.Drained...)}
	case refusal:
		var r Refusal
		if err = decode(message, &r); err == nil {
			err = errors.New(r.Why)
		}
	case abort:
		err = ErrAborted
	default:
		err = fmt.Errorf("%w %s", ErrUnexpected, k)
	}
	if err == nil && len(e.Sockets) != len(e.Files) {
		err = fmt.Errorf("%w: %d descriptors for %d sockets", errBatch, len(e.Files), len(e.Sockets))
	}
	return end, err
}

// Working tells the predecessor each second that this daemon is about to serve, until stop.
func (p *Predecessor) Working() (stop func()) {
	if !p.Works {
		return func() {}
	}
	end := make(chan struct{})
	var said sync.WaitGroup
	said.Go(func() {
		tick := time.NewTicker(workingEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = p.c.send(working, nil) // Serving finds out what is wrong
			}
		}
	})
	return func() {
		close(end)
		said.Wait()
	}
}

// Taker goes on with what a batch brings: each call owns the descriptors.
type Taker struct {
	Conn    func(s *splice.SavedConn, files []int)
	Session func(at netip.AddrPort, s *splice.SavedSession, file int) bool // false: nobody has it, nor the descriptor
	Batch   func(*Batch)                                                   // what else it brings

	// Died is called before the calls for a batch that the predecessor has sent and not confirmed when it died. False:
	// these are not to be taken. Nil: they are.
	Died func(*Batch) bool
}

// Serving tells the predecessor at which of its sockets, in their order, this daemon listens too, and takes all that it
// passes on. ErrDied: it is dead, and what it has not passed on is lost; any other error: it goes on with that. Left is
// how many connections it serves until they end.
func (p *Predecessor) Serving(at []bool, to Taker) (left int64, err error) {
	defer p.c.close()
	if err := p.c.send(serving, Serving{at}); err != nil && !dead(err) {
		return 0, err
	} // else an Abort may have come before
	if err := p.understood(); err != nil {
		return 0, err
	}
	for {
		message, files, err := p.c.receive(p.c.slow + p.c.step)
		if err != nil {
			return 0, fmt.Errorf("take over connections: %w", cause(err))
		}
		switch k := kind(message[0]); k {
		case batch:
			if err := p.take(message, files, to); err != nil {
				return 0, fmt.Errorf("take over connections: %w", cause(err))
			}
		case done:
			closeAll(files)
			var d Done
			err := decode(message, &d)
			return d.Left, err
		case abort:
			closeAll(files)
			return 0, ErrAborted
		default:
			closeAll(files)
			return 0, fmt.Errorf("take over connections: %w %s", ErrUnexpected, k)
		}
	}
}

// take acknowledges a batch, and touches nothing of it before the predecessor has confirmed that: it may have given up
// waiting, and gone on with it. If it is dead nobody else has it.
func (p *Predecessor) take(message []byte, files []int, to Taker) error {
	var b Batch
	err := decode(message, &b)
	if err == nil {
		err = b.check(len(files))
	}
	if err == nil {
		err = p.c.send(taken, nil)
	}
	if err != nil && !dead(err) {
		closeAll(files)
		return err
	}
	end := p.c.expect(goAhead, nil, 2*p.c.step)
	ours := end == nil || dead(end)
	if errors.Is(end, os.ErrDeadlineExceeded) {
		ours = p.cameAfterAll()
	}
	if !ours {
		closeAll(files)
		return end
	}
	if dead(end) && to.Died != nil && !to.Died(&b) {
		closeAll(files)
		return end
	}
	b.restore(files, to)
	return end
}

// cameAfterAll has the predecessor send nothing any more, and tells whether it has sent a Go before that: then it no
// longer has the batch.
func (p *Predecessor) cameAfterAll() bool {
	_ = p.c.unix.CloseRead() // it cannot fail on a socket that is connected; from now on a receive does not wait
	return p.c.expect(goAhead, nil, 0) == nil
}

// cause is ErrDied for an error of a receive or send that means so.
func cause(err error) error {
	if dead(err) {
		return fmt.Errorf("%w: %w", ErrDied, err)
	}
	return err
}

// dead tells whether an error of a receive or send means that the other process has ended.
func dead(err error) bool {
	return errors.Is(err, io.EOF) || platform.IsHangUp(err)
}

// restore passes on what a batch has brought.
func (b *Batch) restore(files []int, to Taker) {
	for _, s := range b.Conns {
		n := s.Files()
		to.Conn(s, slices.Clone(files[:n]))
		files = files[n:]
	}
	for _, s := range b.Sessions {
		if s.Waits {
			to.Session(b.At, s, -1) // where nobody has it, it is lost
			continue
		}
		if !to.Session(b.At, s, files[0]) {
			closeAll(files[:1])
		}
		files = files[1:]
	}
	to.Batch(b)
}
