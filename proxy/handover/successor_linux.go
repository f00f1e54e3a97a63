package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice"
)

// Listener is where successors find this daemon.
type Listener struct {
	l   *platform.PrivateListener
	own Identity
}

// Listen listens at a Unix socket that this user alone can open, in place of a predecessor that listens there.
func Listen(path string, own Identity) (*Listener, error) {
	l, err := platform.ListenPrivate(platform.PacketSocket, path)
	if err != nil {
		return nil, err
	}
	return &Listener{l, own}, nil
}

// Accept waits for a successor. An error that is not net.ErrClosed is about that one alone. Who hangs up without a word
// has only looked whether a daemon is here.
func (l *Listener) Accept() (*Successor, error) {
	for {
		conn, err := l.l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		c, err := newChannel(conn)
		if err != nil {
			return nil, err
		}
		s := &Successor{c: c}
		if err = s.greet(l.own); err == nil {
			return s, nil
		}
		c.close()
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("greet a successor: %w", err)
		}
	}
}

// Leave has Close leave the socket for a successor to replace.
func (l *Listener) Leave() { l.l.Leave() }

// Close stops listening. The socket stays if a successor's has taken its place.
func (l *Listener) Close() { _ = l.l.Close() }

// Successor is the daemon that takes over, as its predecessor sees it. One goroutine uses it.
type Successor struct {
	Hello
	c     *channel
	room  int  // for descriptors
	later bool // it does not run yet: see Deposit
	given int  // sockets
}

func (s *Successor) greet(own Identity) error {
	if err := s.c.expect(hello, &s.Hello, s.c.step); err != nil {
		return err
	}
	var why string
	switch {
	case s.Protocol != Protocol:
		why = fmt.Sprintf("portald %s speaks version %d of the protocol, portald %s version %d", own.Version, Protocol,
			s.Version, s.Protocol)
	case s.Installation != own.Installation:
		why = fmt.Sprintf("this is %q, not %q", own.Installation, s.Installation)
	default:
		return s.c.send(welcome, Welcome{own, Protocol, State})
	}
	return errors.Join(s.Refuse(why), errors.New(why))
}

// Refuse ends it.
func (s *Successor) Refuse(why string) error { return s.c.send(refusal, Refusal{why}) }

// Close ends the connection after an error, or once all was passed on. What the successor has not acknowledged stays
// here.
func (s *Successor) Close() {
	if s.later {
		s.c.close() // nobody else has what is not followed by Done
		return
	}
	s.abort()
	s.c.finish()
}

// TakesState tells whether the successor understands what is known of connections.
func (s *Successor) TakesState() bool { return s.State == State }

// TakesWaiting tells whether it takes what waits for an endpoint too.
func (s *Successor) TakesWaiting() bool { return s.TakesState() && s.Waits }

// Room is how many descriptors the successor may still get.
func (s *Successor) Room() int { return s.room }

// AwaitBegin waits until the successor is ready to take over.
func (s *Successor) AwaitBegin(ctx context.Context) error {
	_ = s.c.unix.SetReadDeadline(time.Time{}) // this and the next cannot fail on a socket that is open
	stop := context.AfterFunc(ctx, func() { _ = s.c.unix.SetReadDeadline(time.Now()) })
	defer stop()
	var b Begin
	if err := s.c.expect(begin, &b, asBefore); err != nil {
		return err
	}
	s.room = b.Files
	return nil
}

// Sockets passes on sockets, which stay open here.
func (s *Successor) Sockets(all []Socket, files []int) error {
	const most = 200
	for len(all) > 0 {
		n := min(most, len(all))
		if s.room -= n; s.room < 0 {
			return fmt.Errorf("portald %s may not open enough descriptors: raise its limit", s.Version)
		}
		if err := s.c.send(sockets, Sockets{all[:n]}, files[:n]...); err != nil {
			return err
		}
		all, files = all[n:], files[n:]
		s.given += n
	}
	return nil
}

// Turns passes on the state of balancers.
func (s *Successor) Turns(all []Turn) error {
	return inParts(all, func(some []Turn) error { return s.c.send(turns, Turns{some}) })
}

// bindingsAtOnce is how many clients that are bound one message has, about.
const bindingsAtOnce = 1000

// inParts calls send with parts of a size for one message.
func inParts(all []Turn, send func([]Turn) error) error {
	var some []Turn
	size := 0
	for _, t := range all {
		for first := true; first || len(t.State.Bindings) > 0; first = false {
			n := min(bindingsAtOnce, len(t.State.Bindings))
			part := t
			part.State.Bindings, t.State.Bindings = t.State.Bindings[:n], t.State.Bindings[n:]
			some, size = append(some, part), size+n+2
			if size < bindingsAtOnce {
				continue
			}
			if err := send(some); err != nil {
				return err
			}
			some, size = nil, 0
		}
	}
	if len(some) == 0 {
		return nil
	}
	return send(some)
}

// Begun ends the answer to Begin, and waits until the successor serves. It listens at those of the sockets, in their
// order, that are true.
func (s *Successor) Begun(b Begun, within time.Duration) (taken []bool, err error) {
	if err := s.c.send(begun, b); err != nil {
		return nil, err
	}
	if s.later {
		return slices.Repeat([]bool{true}, s.given), nil
	}
	var next Serving
	err = s.c.expect(serving, &next, within)
	return next.Taken, err
}

// pass sends a batch, and returns when the successor has it. After an error it does not, and knows that: even if this
// process dies before Close.
func (s *Successor) pass(b *Batch, files []int) error {
	if s.room -= len(files); s.room < 0 {
		return fmt.Errorf("%w: portald %s", ErrTruncated, s.Version)
	}
	err := s.c.send(batch, b, files...)
	if err == nil && !s.later {
		err = s.c.expect(taken, nil, s.c.step)
	}
	if err == nil {
		err = s.c.send(goAhead, nil)
	}
	if err != nil {
		s.abort()
		return fmt.Errorf("pass on connections: %w", err)
	}
	return nil
}

// abort tells the successor, unless that is dead, that what it has not been told to take stays here. One try may fail
// because this process stood still meanwhile.
func (s *Successor) abort() {
	for range 10 {
		if err := s.c.send(abort, nil); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) && !isShortage(err) {
			return
		}
	}
}

// isShortage tells whether another try may work because the kernel had no memory for this one.
func isShortage(err error) bool {
	return errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// bytesAtOnce is how much the state of the connections of one batch holds, about, in bytes.
const bytesAtOnce = maxMessage / 3

// Give is a splice.Give of connections, and of the sessions of one UDP socket.
func (s *Successor) Give(at netip.AddrPort) splice.Give {
	return func(all []*splice.Departure) (taken int, err error) {
		began := time.Now()
		for taken < len(all) {
			b := &Batch{At: at}
			files, n := b.fill(all[taken:])
			if err := s.pass(b, files); err != nil {
				return taken, err
			}
			taken += n
		}
		if !at.IsValid() { // sessions stand still until the last one is passed on
			s.rest(began)
		}
		return taken, nil
	}
}

// rest leaves the CPUs to what is carried for as long as was taken of them: a hand-over as fast as can be has a busy
// machine's exchanges wait twice as long.
func (s *Successor) rest(began time.Time) {
	if !s.later {
		time.Sleep(time.Since(began))
	}
}

// fill adds as many as one message has room for, at least one.
func (b *Batch) fill(all []*splice.Departure) (files []int, n int) {
	size := 0
	for _, d := range all {
		size += sizeOf(d)
		if n > 0 && (size > bytesAtOnce || len(files)+len(d.Files) > maxFiles) {
			break
		}
		if d.Conn != nil {
			b.Conns = append(b.Conns, d.Conn)
		} else {
			b.Sessions = append(b.Sessions, d.Session)
		}
		files = append(files, d.Files...)
		n++
	}
	return files, n
}

// sizeOf is about how many bytes of a message the state of a connection or session takes.
func sizeOf(d *splice.Departure) int {
	if c := d.Conn; c != nil {
		return stateSize + len(c.Attempts)*attemptSize + len(c.Up.Rest) + len(c.Down.Rest) + len(c.Sent)
	}
	return stateSize + len(d.Session.Attempts)*attemptSize + len(d.Session.Unanswered)
}

// About the sizes, in bytes, of the state of a connection and of a record, both without attempts, and of an attempt.
const (
	stateSize   = 900
	recordSize  = 1400
	attemptSize = 150
)

// Resume tells that all sessions of a UDP socket were passed on.
func (s *Successor) Resume(socket Socket) error { return s.pass(&Batch{Resume: &socket}, nil) }

// Changed passes on what has changed of balancers.
func (s *Successor) Changed(all []Turn) error {
	return inParts(all, func(some []Turn) error { return s.pass(&Batch{Turns: some}, nil) })
}

// Records passes on records.
func (s *Successor) Records(all []*splice.Record) error {
	for len(all) > 0 {
		n, size := 0, 0
		for ; n < len(all) && size < bytesAtOnce; n++ {
			size += recordSize + len(all[n].Attempts)*attemptSize
		}
		began := time.Now()
		if err := s.pass(&Batch{Records: all[:n]}, nil); err != nil {
			return err
		}
		all = all[n:]
		s.rest(began)
	}
	return nil
}

// Done tells that all was passed on, but for so many connections that are served here until they end.
func (s *Successor) Done(left int64) error {
	defer s.c.close()
	return s.c.send(done, Done{left})
}
