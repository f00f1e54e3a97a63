package handover

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/proxy/splice"
)

// A successor that ends, at any message, leaves all that it was not told to take to its predecessor.
func TestSuccessorEnds(t *testing.T) {
	steps := []struct {
		name  string
		do    func(c *channel) error
		taken int // connections that are the successor's then
	}{
		{"before Begin", func(*channel) error { return nil }, 0},
		{"before Serving", func(c *channel) error {
			return errors.Join(c.send(begin, Begin{1000}), c.expect(begun, nil, longest))
		}, 0},
		{"before the batch", func(c *channel) error { return c.send(serving, Serving{}) }, 0},
		{"before Taken", func(c *channel) error { return c.expect(batch, nil, longest) }, 0},
		{"before Go", func(c *channel) error { return c.send(taken, nil) }, -1}, // it may have been sent
		{"before the next batch", func(c *channel) error { return c.expect(goAhead, nil, longest) }, 1},
	}
	for at, last := range steps {
		t.Run(last.name, func(t *testing.T) {
			noLeak(t)
			p, s := meet(t)
			go func() {
				for _, step := range steps[:at+1] {
					if err := step.do(p.c); err != nil {
						t.Errorf("%s: %v", step.name, err)
					}
				}
				p.c.close()
			}()
			n, err := giveTwo(t, s)
			if err == nil || n != last.taken && last.taken >= 0 || n > 1 {
				t.Errorf("%d were taken, want %d; %v", n, last.taken, err)
			}
		})
	}
}

// giveTwo is the predecessor's part, which passes on two connections one after the other.
func giveTwo(t *testing.T, s *Successor) (taken int, err error) {
	t.Helper()
	defer s.Close()
	if err := s.AwaitBegin(t.Context()); err != nil {
		return 0, err
	}
	if _, err := s.Begun(Begun{}, longest); err != nil {
		return 0, err
	}
	for range 2 {
		n, err := s.Give(netip.AddrPort{})([]*splice.Departure{connection(t, 1)})
		if taken += n; err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// A predecessor that dies, at any message, leaves all that it has sent to its successor; one that goes on leaves what
// it has told it to take.
func TestPredecessorEnds(t *testing.T) {
	steps := []struct {
		name        string
		do          func(t *testing.T, c *channel) error
		dead, lives int // connections that are the successor's then
	}{
		{"before Begun", func(t *testing.T, c *channel) error {
			return errors.Join(c.expect(begin, nil, longest), c.send(sockets, Sockets{make([]Socket, 1)}, descriptor(t)))
		}, 0, 0},
		{"before Serving", func(_ *testing.T, c *channel) error { return c.send(begun, Begun{}) }, 0, 0},
		{"before the batch", func(_ *testing.T, c *channel) error { return c.expect(serving, nil, longest) }, 0, 0},
		{"before Taken", func(t *testing.T, c *channel) error {
			d := connection(t, 1)
			return c.send(batch, &Batch{Conns: []*splice.SavedConn{d.Conn}}, d.Files...)
		}, 1, 0},
		{"before Go", func(_ *testing.T, c *channel) error { return c.expect(taken, nil, longest) }, 1, 0},
		{"before the next batch", func(_ *testing.T, c *channel) error { return c.send(goAhead, nil) }, 1, 1},
	}
	for at, last := range steps {
		for _, dies := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, dies %t", last.name, dies), func(t *testing.T) {
				noLeak(t)
				p, s := meet(t)
				go func() {
					for _, step := range steps[:at+1] {
						if err := step.do(t, s.c); err != nil {
							t.Errorf("%s: %v", step.name, err)
						}
					}
					if dies {
						s.c.close()
					} else {
						s.Close()
					}
				}()
				var h recordingTaker
				err := h.takesOver(t, p)
				want, cause := last.lives, ErrAborted
				if dies {
					want, cause = last.dead, ErrDied
				}
				if at == 0 && dies {
					cause = nil // nothing has begun: the successor tries again
				}
				if len(h.conns) != want || err == nil || cause != nil && !errors.Is(err, cause) {
					t.Errorf("%d connections came, want %d; %v, want %v", len(h.conns), want, err, cause)
				}
			})
		}
	}
}

// takesOver is the successor's part.
func (h *recordingTaker) takesOver(t *testing.T, p *Predecessor) error {
	e, err := p.Begin(1000)
	if err != nil {
		return err
	}
	h.files = append(h.files, e.Files...)
	return <-h.serves(t, p)
}

// A predecessor that has lost its patience goes on, and its successor, which answers later, touches nothing.
func TestLateTaken(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1000)
	s.c.step = 50 * time.Millisecond
	must(t, p.c.send(serving, Serving{}))
	awaitServing(t, s)
	n, err := s.Give(netip.AddrPort{})([]*splice.Departure{connection(t, 1)})
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d were taken: %v", n, err)
	}
	s.c.close() // it dies before it could say more
	var h recordingTaker
	if err := <-h.serves(t, p); !errors.Is(err, ErrAborted) || len(h.conns) != 0 {
		t.Errorf("%d connections have two owners: %v", len(h.conns), err)
	}
}

// A successor that has lost its patience does not have the batch, and its predecessor learns that.
func TestLateGo(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1000)
	p.c.step = 50 * time.Millisecond
	var h recordingTaker
	end := h.serves(t, p)
	awaitServing(t, s)
	d := connection(t, 1)
	must(t, s.c.send(batch, &Batch{Conns: []*splice.SavedConn{d.Conn}}, d.Files...))
	if err := <-end; !errors.Is(err, os.ErrDeadlineExceeded) || len(h.conns) != 0 {
		t.Errorf("%d connections came: %v", len(h.conns), err)
	}
	must(t, s.c.expect(taken, nil, longest))
	if err := s.c.send(goAhead, nil); err == nil {
		t.Error("nobody has the connection")
	}
}

// A message that a predecessor or successor never sends ends the hand-over, and leaves nothing open.
func TestNonsense(t *testing.T) {
	d, other := connection(t, 1), connection(t, 2)
	other.Conn.Attempts = nil
	endless := connection(t, 3)
	endless.Conn.Up.InPipe = 1 // which would have two descriptors more
	talk := session(t, 4)
	talk.Session.Local = netip.Addr{}
	conns := func(all ...*splice.SavedConn) *Batch { return &Batch{Conns: all} }
	for name, c := range map[string]struct {
		k     kind
		body  any
		files []int
	}{
		"another message":       {welcome, Welcome{}, nil},
		"an unknown message":    {kind(200), nil, d.Files},
		"Taken with files":      {taken, nil, d.Files},
		"no body":               {batch, nil, nil},
		"another body":          {batch, []int{1, 2}, nil},
		"too few descriptors":   {batch, conns(d.Conn), d.Files[:1]},
		"too many descriptors":  {batch, conns(d.Conn), append(d.Files, d.Files...)},
		"descriptors alone":     {batch, &Batch{}, d.Files},
		"no connection":         {batch, conns(nil), nil},
		"without an attempt":    {batch, conns(other.Conn), other.Files},
		"an empty pipe":         {batch, conns(endless.Conn), endless.Files},
		"session without local": {batch, &Batch{Sessions: []*splice.SavedSession{talk.Session}}, talk.Files},
		"no session":            {batch, &Batch{Sessions: []*splice.SavedSession{nil}}, talk.Files},
		"a long list":           {batch, &Batch{Conns: make([]*splice.SavedConn, 100_000)}, nil},
	} {
		t.Run("to a successor: "+name, func(t *testing.T) {
			noLeak(t)
			p, s := served(t, 1000)
			var h recordingTaker
			end := h.serves(t, p)
			awaitServing(t, s)
			must(t, s.c.send(c.k, c.body, c.files...))
			if err := <-end; err == nil || errors.Is(err, ErrDied) || len(h.conns)+len(h.sessions)+h.batches != 0 {
				t.Errorf("%d connections, %d sessions, %d batches: %v", len(h.conns), len(h.sessions), h.batches, err)
			}
		})
		t.Run("to a predecessor: "+name, func(t *testing.T) {
			noLeak(t)
			p, s := meet(t)
			must(t, p.c.send(c.k, c.body, c.files...))
			if n, err := giveTwo(t, s); n != 0 || !errors.Is(err, ErrUnexpected) {
				t.Errorf("%d were taken: %v", n, err)
			}
		})
	}
}

// Descriptors that come with a message which has none are closed.
func TestStrayDescriptors(t *testing.T) {
	noLeak(t)
	p, s := meet(t)
	must(t, p.c.send(begin, Begin{1000}, descriptor(t), descriptor(t)))
	must(t, s.AwaitBegin(t.Context()))
	must(t, s.c.send(begun, Begun{}, descriptor(t)))
	if _, err := p.Begin(10); !errors.Is(err, errBatch) {
		t.Error(err)
	}
}

// A message that does not fit is not taken for a shorter one, and is not sent by this end.
func TestOversized(t *testing.T) {
	noLeak(t)
	a, b := raw(t)
	must(t, a.unix.SetWriteBuffer(4*maxMessage))
	long := bytes.Repeat([]byte{byte(batch)}, maxMessage+100)
	_, _, err := a.unix.WriteMsgUnix(long, syscall.UnixRights(descriptor(t)), nil)
	must(t, err)
	if _, _, err := b.receive(longest); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
	if err := a.send(batch, make([]byte, maxMessage)); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
	if err := a.send(batch, nil, make([]int, maxFiles+1)...); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
}

// A successor that has no room for descriptors, although it thought so, takes none of a batch.
func TestDescriptorsExhausted(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1000)
	var h recordingTaker
	end := h.serves(t, p)
	awaitServing(t, s)
	var given []*splice.Departure
	for i := range 20 {
		given = append(given, connection(t, uint64(i)))
	}
	lowerLimit(t, 7)
	n, err := s.Give(netip.AddrPort{})(given)
	if n != 0 || err == nil {
		t.Errorf("%d were taken: %v", n, err)
	}
	if err := <-end; !errors.Is(err, ErrTruncated) || len(h.conns) != 0 {
		t.Errorf("%d connections came: %v", len(h.conns), err)
	}
}

// lowerLimit leaves this process room for so few descriptors more, until the test ends.
func lowerLimit(t *testing.T, more int) {
	t.Helper()
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	highest := descriptor(t)
	for range more {
		highest = max(highest, descriptor(t))
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) })
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(highest + 1), Max: before.Max}))
}

// asNobody runs f on a thread that belongs to another user.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	const nobody = 65534
	if os.Geteuid() != 0 {
		netnstest.Missing(t, "needs root, to have a thread of another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with this goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); e != 0 {
			done <- e
			return
		}
		done <- f()
	}()
	must(t, <-done)
}

// Nothing is taken from a process of another user, nor given to one, whoever may open the socket.
func TestPeerOfAnotherUser(t *testing.T) {
	noLeak(t)
	path := socketPath(t)
	must(t, os.Chmod(strings.TrimSuffix(path, "/s"), 0o777))
	var l *platform.PrivateListener
	asNobody(t, func() (err error) {
		l, err = platform.ListenPrivate(platform.PacketSocket, path)
		return err
	})
	if _, err := Dial(t.Context(), path, own); !errors.Is(err, platform.ErrPeer) {
		t.Errorf("a predecessor of another user: %v", err)
	}
	must(t, l.Close())

	mine, err := Listen(path, own)
	must(t, err)
	defer mine.Close()
	must(t, os.Chmod(path, 0o666))
	asNobody(t, func() error {
		c, err := dialRaw(path)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	})
	if _, err := mine.Accept(); !errors.Is(err, platform.ErrPeer) {
		t.Errorf("a successor of another user: %v", err)
	}
}
