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
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// Listener is where successors find this daemon.
type Listener struct {
	l       *platform.PrivateListener
	own     Identity
	greeted chan greeting
	room    chan struct{} // holds one for each caller that is being greeted
	closed  chan struct{}
	close   func()
}

// greeting is a successor that has said who it is, or what went wrong.
type greeting struct {
	s   *Successor
	err error
}

// maxGreeted is how many callers are greeted at a time: one that says nothing holds up no other.
const maxGreeted = 32

// Listen listens at a Unix socket that this user alone can open, in place of a predecessor that listens there.
func Listen(path string, own Identity) (*Listener, error) {
	at, err := platform.ListenPrivate(platform.PacketSocket, path)
	if err != nil {
		return nil, err
	}
	l := &Listener{l: at, own: own, greeted: make(chan greeting), room: make(chan struct{}, maxGreeted),
		closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	go l.run()
	return l, nil
}

// Accept waits for a successor. An error that is not net.ErrClosed is about that one alone. Who hangs up without a word
// has only looked whether a daemon is here.
func (l *Listener) Accept() (*Successor, error) {
	select {
	case g := <-l.greeted:
		return g.s, g.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// run greets all callers, until Close.
func (l *Listener) run() {
	for {
		l.room <- struct{}{}
		conn, err := l.l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.pass(nil, err)
			<-l.room
			continue
		}
		go func() {
			l.greet(conn)
			<-l.room
		}()
	}
}

func (l *Listener) greet(conn *net.UnixConn) {
	c, err := newChannel(conn)
	if err != nil {
		l.pass(nil, err)
		return
	}
	s := &Successor{c: c}
	if err = s.greet(l.own); err == nil {
		l.pass(s, nil)
		return
	}
	c.close()
	if !errors.Is(err, io.EOF) {
		l.pass(nil, fmt.Errorf("greet a successor: %w", err))
	}
}

// pass gives Accept what it returns.
func (l *Listener) pass(s *Successor, err error) {
	select {
	case l.greeted <- greeting{s, err}:
	case <-l.closed:
		if s != nil {
			s.c.close()
		}
	}
}

// Leave has Close leave the socket for a successor to replace.
func (l *Listener) Leave() { l.l.Leave() }

// Close stops listening. The socket stays if a successor's has taken its place.
func (l *Listener) Close() {
	l.close()
	_ = l.l.Close() // it is open, or was closed already
}

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
		return s.c.send(welcome, Welcome{own, Protocol, State, true})
	}
	return errors.Join(s.Refuse(why), errors.New(why))
}

// Refuse ends it.
func (s *Successor) Refuse(why string) error { return s.c.send(refusal, Refusal{why}) }

// Close ends the connection after an error, or once all was passed on. Connections that the successor has not
// acknowledged stay here.
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
	items, err := packSockets(all, files)
	if err != nil {
		return err
	}
	var lost error // what it listens at is told by place: none may be missing
	err = s.c.inMessages(items, func(some []item) error {
		if s.room -= len(some); s.room < 0 {
			return fmt.Errorf("portald %s may not open enough descriptors: raise its limit", s.Version)
		}
		s.given += len(some)
		return s.c.send(sockets, packedSockets{bodiesOf(some)}, filesOf(some)...)
	}, func(at int) { lost = fmt.Errorf("pass on the socket of %s: %w", all[at].Name, ErrTruncated) })
	return errors.Join(err, lost)
}

func packSockets(all []Socket, files []int) (items []item, err error) {
	items = make([]item, len(all))
	for i := range all {
		if items[i], err = pack(&all[i], files[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// Turns passes on the state of balancers.
func (s *Successor) Turns(all []Turn) error {
	return s.inParts(all, func(some []item) error { return s.c.send(turns, packedTurns{Turns: bodiesOf(some)}) })
}

// inParts calls send with as many parts of the state of balancers as one message has room for.
func (s *Successor) inParts(all []Turn, send func([]item) error) error {
	var parts []Turn
	for _, t := range all {
		parts = t.parts(parts)
	}
	items, err := packAll(parts)
	if err != nil {
		return err
	}
	return s.c.inMessages(items, send, func(int) {}) // better a new descriptor than none
}

// ofPart is how many clients that are bound, and endpoints that are ejected, one part of a Turn has.
const ofPart = 50

// parts adds parts that are small enough for any message.
func (t Turn) parts(to []Turn) []Turn {
	bound, ejected := t.State.Bindings, t.State.Ejected
	for first := true; first || len(bound)+len(ejected) > 0; first = false {
		n, m := min(ofPart, len(bound)), min(ofPart, len(ejected))
		t.State.Bindings, t.State.Ejected = bound[:n], ejected[:m]
		bound, ejected = bound[n:], ejected[m:]
		to = append(to, t)
	}
	return to
}

// Begun ends the answer to Begin, and waits until the successor serves. It listens at the sockets for which taken is
// true, in their order.
func (s *Successor) Begun(b Begun, within time.Duration) (taken []bool, err error) {
	items, err := packAll(b.Drained)
	if err != nil {
		return nil, err
	}
	n := firstOf(items, s.c.most) // an older one knows of these alone
	err = s.c.inMessages(items[n:], func(some []item) error {
		return s.c.send(turns, packedTurns{Drained: bodiesOf(some)})
	}, func(int) {})
	if err == nil {
		err = s.c.send(begun, packedBegun{b.LastID, bodiesOf(items[:n])})
	}
	if err != nil {
		return nil, err
	}
	if s.later {
		return slices.Repeat([]bool{true}, s.given), nil
	}
	return s.awaitServing(within)
}

// awaitServing waits for so long, and no longer than the successor says that it works.
func (s *Successor) awaitServing(within time.Duration) (taken []bool, err error) {
	for until := time.Now().Add(within); ; {
		wait := max(time.Millisecond, time.Until(until))
		if s.Works {
			wait = min(wait, silence)
		}
		message, files, err := s.c.receive(wait)
		if err != nil {
			return nil, fmt.Errorf("wait for %s: %w", serving, err)
		}
		closeAll(files)
		if kind(message[0]) == working {
			continue
		}
		var next Serving
		err = understand(message, serving, &next)
		return next.Taken, err
	}
}

// AwaitEnd tells a successor that did not take over that this daemon goes on, and waits until that one has ended, or
// ctx ends: it may have stood still, and do what it was about to.
func (s *Successor) AwaitEnd(ctx context.Context) {
	s.abort()
	_ = s.c.unix.SetReadDeadline(time.Time{}) // this and the next cannot fail on a socket that is open
	stop := context.AfterFunc(ctx, func() { _ = s.c.unix.SetReadDeadline(time.Now()) })
	defer stop()
	for {
		_, files, err := s.c.receive(asBefore)
		if err != nil && !errors.Is(err, ErrTruncated) {
			return
		}
		closeAll(files)
	}
}

// pass sends a batch, and returns when the successor has it. After an error it does not, and knows that: even if this
// process dies before Close. Given is called, if it is not nil, before the successor may go on.
func (s *Successor) pass(b *packedBatch, files []int, given func()) error {
	if s.room -= len(files); s.room < 0 {
		return fmt.Errorf("%w: portald %s", ErrTruncated, s.Version)
	}
	err := s.c.send(batch, b, files...)
	if err == nil && !s.later {
		err = s.c.expect(taken, nil, s.c.step)
	}
	if err == nil {
		if given != nil {
			given()
		}
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

// Give is a splice.Give of connections, and of the sessions of one UDP socket.
func (s *Successor) Give(at netip.AddrPort) splice.Give {
	return func(all []*splice.Departure) (taken int, err error) {
		began := time.Now()
		items := make([]item, len(all))
		for i, d := range all {
			if items[i], err = packDeparture(d); err != nil {
				return 0, err
			}
		}
		err = s.c.inMessages(items, func(some []item) error {
			b := &packedBatch{At: at}
			if all[taken].Conn != nil {
				b.Conns = bodiesOf(some)
			} else {
				b.Sessions = bodiesOf(some)
			}
			given := func() {
				for _, d := range all[taken : taken+len(some)] {
					if d.Given != nil {
						d.Given()
					}
				}
			}
			if err := s.pass(b, filesOf(some), given); err != nil {
				return err
			}
			taken += len(some)
			return nil
		}, func(at int) {
			all[at].Stays = true
			taken++
		})
		if err == nil && !at.IsValid() { // sessions stand still until the last one is passed on
			s.rest(began)
		}
		return taken, err
	}
}

func packDeparture(d *splice.Departure) (item, error) {
	if d.Conn != nil {
		return pack(d.Conn, d.Files...)
	}
	return pack(d.Session, d.Files...)
}

// rest leaves the CPUs to what is carried for as long as was taken of them: a hand-over as fast as can be has a busy
// machine's exchanges wait twice as long.
func (s *Successor) rest(began time.Time) {
	if !s.later {
		time.Sleep(time.Since(began))
	}
}

// Resume tells that all sessions of a UDP socket were passed on.
func (s *Successor) Resume(socket Socket) error {
	return s.pass(&packedBatch{Resume: &socket}, nil, nil)
}

// Changed passes on what has changed of balancers.
func (s *Successor) Changed(all []Turn) error {
	return s.inParts(all, func(some []item) error { return s.pass(&packedBatch{Turns: bodiesOf(some)}, nil, nil) })
}

// Records passes on records, but for those that no message has room for.
func (s *Successor) Records(all []*record.Record) error {
	return passParts(s, all, func(some []*record.Record) ([]item, error) {
		passed := make([]passedRecord, len(some))
		for i, r := range some {
			passed[i] = passedRecordOf(r)
		}
		return packAll(passed)
	}, func(some []item) *packedBatch { return &packedBatch{Records: bodiesOf(some)} })
}

// Changes passes on changes, but for those that no message has room for. A successor that does not know what they are
// takes nothing of them.
func (s *Successor) Changes(all []changes.Change) error {
	return passParts(s, all, packAll[changes.Change],
		func(some []item) *packedBatch { return &packedBatch{Changes: bodiesOf(some)} })
}

// passParts passes on what has no descriptors, and is only looked at.
func passParts[of any](
	s *Successor, all []of, pack func([]of) ([]item, error), in func([]item) *packedBatch,
) error {
	for some := range slices.Chunk(all, packedAtOnce) {
		items, err := pack(some)
		if err != nil {
			return err
		}
		err = s.c.inMessages(items, func(some []item) error {
			began := time.Now()
			defer s.rest(began)
			return s.pass(in(some), nil, nil)
		}, func(int) {})
		if err != nil {
			return err
		}
	}
	return nil
}

// packedAtOnce is how many are encoded before they are sent.
const packedAtOnce = 256

// Done tells that all was passed on, but for so many connections that are served here until they end.
func (s *Successor) Done(left int64) error {
	defer s.c.close()
	return s.c.send(done, Done{Left: left})
}
