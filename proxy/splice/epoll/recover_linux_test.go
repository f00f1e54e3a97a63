package epoll

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// The operation of a process that died is known from the kernel and from its notes; or it is known that it is not.
func TestRecover(t *testing.T) {
	const before = 1000 // bytes that were carried already
	for name, c := range map[string]struct {
		die                  func(w *wreck)
		rest, inPipe, unread int64 // of the client's bytes, in the order in which they go to the endpoint
		eof                  bool
		broken               syscall.Errno // of the client
		err                  error
	}{
		"at rest": {die: func(*wreck) {}},
		"before it read": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
		}, unread: 500},
		"after it read": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
		}, rest: 500},
		"after it read some of it": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(400, w.scratch())
		}, rest: 400, unread: 100},
		"after it wrote some": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			w.give(w.scratch()[:300])
		}, rest: 200},
		"after it wrote all": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			w.give(w.scratch()[:500])
		}},
		"while it put the rest aside": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			w.give(w.scratch()[:300])
			copy(w.m.buffer(3)[:100], w.scratch()[300:400])
		}, rest: 200},
		"after it put the rest aside": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			w.give(w.scratch()[:300])
			copy(w.m.buffer(3)[:], w.scratch()[300:500])
			w.mem().reads(before+300, 3)
			clear(w.scratch()) // another connection was read
		}, rest: 200},
		"after it wrote some of the rest": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			copy(w.m.buffer(3)[:], w.scratch()[:500])
			w.mem().reads(before, 3)
			clear(w.scratch())
			w.give(w.m.buffer(3)[:450])
		}, rest: 50},
		"with a pipe that is full": {die: func(w *wreck) {
			w.say(500)
			w.mem().pipe.Store(9)
			w.splice(w.src, w.pipe[1], 500)
		}, inPipe: 500},
		"with a pipe that is half empty": {die: func(w *wreck) {
			w.say(500)
			w.mem().pipe.Store(9)
			w.splice(w.src, w.pipe[1], 500)
			w.splice(w.pipe[0], w.dst, 200)
		}, inPipe: 300},
		"with a pipe that is empty": {die: func(w *wreck) {
			w.say(500)
			w.mem().pipe.Store(9)
			w.splice(w.src, w.pipe[1], 500)
			w.splice(w.pipe[0], w.dst, 500)
		}},
		"with a pipe that nobody kept": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.mem().pipe.Store(7)
			w.splice(w.src, w.pipe[1], 500)
		}, err: ErrNoProof},
		"after it wrote what it had only looked at": {die: func(w *wreck) {
			w.say(500)
			w.mem().peeking.Store(1)
			b := make([]byte, 500)
			sysPeek(w.src, b)
			w.give(b[:350])
		}, unread: 150},
		"by somebody else's hand": {die: func(w *wreck) { w.give(make([]byte, 10)) }, err: ErrNoProof},
		"with urgent data": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before, 0)
			w.mem().unprovable.Or(urgentData)
			w.take(500, w.scratch())
		}, err: ErrNoProof},
		"with a private buffer": {die: func(w *wreck) {
			w.say(500)
			w.mem().unprovable.Or(privateBuffer)
			w.take(500, make([]byte, 500))
		}, err: ErrNoProof},
		"with a note that is not of this place": {die: func(w *wreck) {
			w.say(500)
			w.mem().reads(before+400, 0)
			w.take(500, w.scratch())
		}, err: ErrNoProof},
		"after the client's FIN, unread": {die: func(w *wreck) {
			w.say(500)
			w.client.CloseWrite()
			w.awaitFIN()
		}, unread: 500},
		"after the client's FIN, read": {die: func(w *wreck) {
			w.say(500)
			w.client.CloseWrite()
			w.awaitFIN()
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			sysRecv(w.src, make([]byte, 1))
		}, rest: 500},
		"after the FIN was passed on": {die: func(w *wreck) {
			w.client.CloseWrite()
			w.awaitFIN()
			sysShutdownWrite(w.dst)
		}, eof: true},
		"after both had closed": {die: func(w *wreck) {
			sysShutdownWrite(w.src)
			sysShutdownWrite(w.dst)
		}, err: ErrEnded},
		"after a reset": {die: (*wreck).reset, broken: unix.ECONNRESET},
		"after a reset behind bytes, unread": {die: func(w *wreck) {
			w.say(500)
			w.reset()
		}, unread: 500, broken: unix.ECONNRESET},
		"after a reset behind bytes, some read": {die: func(w *wreck) {
			w.say(500)
			w.reset()
			w.mem().reads(before, 0)
			w.take(400, w.scratch())
			w.give(w.scratch()[:100])
		}, rest: 300, unread: 100, broken: unix.ECONNRESET},
		"after a reset, with a pipe": {die: func(w *wreck) {
			w.say(500)
			w.mem().pipe.Store(9)
			w.splice(w.src, w.pipe[1], 500)
			w.reset()
		}, inPipe: 500, broken: unix.ECONNRESET},
		"after a reset behind a FIN, unread": {die: func(w *wreck) {
			w.say(500)
			w.client.CloseWrite()
			w.awaitFIN()
			w.reset()
		}, unread: 500, broken: unix.EPIPE},
		"after a reset behind a FIN, read": {die: func(w *wreck) {
			w.say(500)
			w.client.CloseWrite()
			w.awaitFIN()
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			sysRecv(w.src, make([]byte, 1))
			w.reset()
		}, rest: 500, broken: unix.EPIPE},
		"after a reset behind a FIN that was passed on": {die: func(w *wreck) {
			w.client.CloseWrite()
			w.awaitFIN()
			sysShutdownWrite(w.dst)
			w.reset()
		}, eof: true, broken: unix.EPIPE},
		"after a reset that was noted": {die: func(w *wreck) {
			w.say(500)
			w.reset()
			w.mem().reads(before, 0)
			w.take(500, w.scratch())
			w.mem().broken.Store(uint32(sysError(w.src)))
		}, rest: 500, broken: unix.ECONNRESET},
		"after a reset that was learned of, before it was noted": {die: func(w *wreck) {
			w.say(500)
			w.reset()
			sysError(w.src)
		}, err: ErrEnded},
		"after a reset of one whose peer had ended": {die: func(w *wreck) {
			w.say(500)
			w.m.slots[w.slot].down.ended.Store(1)
			sysShutdownWrite(w.src)
			eventually(w.t, func() bool { return sysUnacknowledged(w.src) == 0 }, "the FIN is acknowledged")
			w.reset()
		}, unread: 500, broken: unix.ECONNRESET},
		"after the predecessor had reset it": {die: func(w *wreck) { Abort(dup(w.t, w.src)...) }, err: ErrNoProof},
		"after both were reset": {die: func(w *wreck) {
			w.reset()
			Abort(dup(w.t, w.dst)...)
		}, err: ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWreck(t)
			c.die(w)
			before := w.saved
			files, err := w.m.Recover(&w.saved, w.slot, []int{w.src, w.dst}, map[uint32][2]int{9: w.pipe})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			var broken splice.SavedBreak
			if b := w.saved.Broken; b != nil {
				broken = *b
			}
			if c.broken != 0 && broken.Side != record.Client || broken.Errno != c.broken {
				t.Errorf("broken %+v, want %v", broken, c.broken)
			}
			up := w.saved.Up
			if int64(len(up.Rest)) != c.rest || int64(up.InPipe) != c.inPipe || up.EOF != c.eof {
				t.Fatalf("rest %d, in the pipe %d, EOF %t", len(up.Rest), up.InPipe, up.EOF)
			}
			if want := up.Carried - c.rest; c.rest > 0 && !bytes.Equal(up.Rest, w.want(want, up.Carried)) {
				t.Error("the rest has other bytes")
			}
			if up.Passed+c.rest+c.inPipe != up.Carried || up.Carried+c.unread != w.said {
				t.Errorf("carried %d, passed %d of %d", up.Carried, up.Passed, w.said)
			}
			if n := w.saved.Files(); n != len(files) {
				t.Errorf("%d descriptors for %d", len(files), n)
			}
			again := before // the process that has looked dies before anything moves
			if _, err = w.m.Recover(&again, w.slot, []int{w.src, w.dst}, map[uint32][2]int{9: w.pipe}); err != nil ||
				!reflect.DeepEqual(again.Up, w.saved.Up) {
				t.Errorf("the second time %+v, %v; the first time %+v", again.Up, err, w.saved.Up)
			}
			w.m.Give(w.slot)
			again = before
			if _, err = w.m.Recover(&again, w.slot, []int{w.src, w.dst}, map[uint32][2]int{9: w.pipe}); err != ErrGiven {
				t.Errorf("after another went on with it: %v", err)
			}
		})
	}
}

// The client had ended its stream, and the endpoint has answered it and ended too: its socket is closed. Its answer,
// and its end, may not have been passed on; then nothing of it may be missing.
func TestRecoverAnswered(t *testing.T) {
	const answered = 300
	for name, c := range map[string]struct {
		die                func(w *wreck)
		rest, passed, left int64 // of the answer
		err                error
	}{
		"unread": {die: func(w *wreck) {}, left: answered},
		"read": {die: func(w *wreck) {
			w.answers().reads(0, 0)
			sysRecv(w.dst, w.scratch()[:answered])
		}, rest: answered},
		"passed on": {die: func(w *wreck) {
			w.answers().reads(0, 0)
			sysRecv(w.dst, w.scratch()[:answered])
			sysSend(w.src, w.scratch()[:answered])
		}, passed: answered},
		"and its end read": {die: func(w *wreck) {
			w.answers().reads(0, 0)
			sysRecv(w.dst, w.scratch()[:answered])
			sysSend(w.src, w.scratch()[:answered-100])
			sysRecv(w.dst, w.scratch()[answered:])
		}, passed: answered - 100, rest: 100},
		"and its end passed on": {die: func(w *wreck) {
			sysRecv(w.dst, w.scratch()[:answered])
			sysSend(w.src, w.scratch()[:answered])
			sysShutdownWrite(w.src)
		}, err: ErrEnded},
		"while its error was asked for": {die: func(w *wreck) { w.answers().errorTaken.Store(1) }, err: ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWreck(t)
			w.client.CloseWrite()
			w.awaitFIN()
			w.mem().ended.Store(1)
			sysShutdownWrite(w.dst)
			io.Copy(io.Discard, w.endpoint) // else it would reset the connection
			w.endpoint.Write(w.want(0, answered))
			w.endpoint.Close()
			eventually(t, func() bool { c, _ := countsOf(w.dst); return c.closed }, "the endpoint's end arrives")
			c.die(w)
			for range 2 { // the process that has looked first dies before anything moves
				s := w.saved
				_, err := w.m.Recover(&s, w.slot, []int{w.src, w.dst}, nil)
				if !errors.Is(err, c.err) {
					t.Fatalf("error %v, want %v", err, c.err)
				}
				if err != nil {
					return
				}
				if !s.ClientEOF || s.EndpointEOF || s.Broken != nil || s.Up.Carried != s.Up.Passed {
					t.Errorf("the client's end was passed on, and not the endpoint's: %+v", s)
				}
				if got := s.Down; got.Passed != c.passed || got.Carried != c.passed+c.rest ||
					!bytes.Equal(got.Rest, w.want(c.passed, c.passed+c.rest)) {
					t.Errorf("passed %d, read %d, rest %d", got.Passed, got.Carried, len(got.Rest))
				}
				if unread, _ := unix.IoctlGetInt(w.dst, unix.SIOCINQ); int64(unread) != c.left {
					t.Errorf("%d are unread, want %d", unread, c.left)
				}
			}
			w.resume(&w.saved)
			if got, err := io.ReadAll(w.client); err != nil || !bytes.Equal(got, w.want(0, answered)) {
				t.Errorf("the client got %d bytes: %v", len(got), err)
			}
		})
	}
}

// The next process has made a connection its own, and dies before it moves a byte: what it has noted tells the same as
// what the one before it had, and then goes on with it.
func TestStanding(t *testing.T) {
	for name, die := range map[string]func(w *wreck){
		"with a rest": func(w *wreck) {
			w.say(500)
			w.mem().reads(1000, 0)
			w.take(500, w.scratch())
			w.give(w.scratch()[:300])
		},
		"with a pipe": func(w *wreck) {
			w.say(500)
			w.mem().pipe.Store(9)
			w.splice(w.src, w.pipe[1], 500)
			w.splice(w.pipe[0], w.dst, 300)
		},
		"with nothing": func(w *wreck) { w.say(500) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWreck(t)
			die(w)
			m, err := NewMemory()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			opts := splice.Options{Account: quota.NewAccount(quota.Budget{Kept: 10, PipePages: 1 << 10})}
			keeper := &pipeKeeper{pipes: map[uint32][2]int{}}
			r := newRigWith(t, opts, func(c *splice.Core) (*engine, error) { return open(c, 1, m, keeper) })
			at := netip.MustParseAddrPort("127.0.0.1:1")
			w.saved.Client, w.saved.OriginalDst, w.saved.Attempts = at, at, []record.Attempt{{Endpoint: at}}
			files, err := w.m.Recover(&w.saved, w.slot, dup(t, w.src, w.dst), map[uint32][2]int{9: [2]int(dup(t, w.pipe[:]...))})
			if err != nil {
				t.Fatal(err)
			}
			none := func(service.PortName, inet.Family) *splice.Front { return nil }
			restorer := r.Moving().Restorer(none)
			restorer.Stand(&w.saved, files)
			restorer.KeepStanding(func(all []*splice.Kept) bool {
				if len(all) != 1 {
					t.Fatalf("%d are kept", len(all))
				}
				next := *all[0].State
				if _, err := m.Recover(&next, all[0].Slot, all[0].Files, keeper.all()); err != nil {
					t.Fatal(err)
				}
				for _, fd := range all[0].Files {
					sysClose(fd)
				}
				got, want := next.Up, w.saved.Up
				if got.Carried != want.Carried || got.Passed != want.Passed || got.InPipe != want.InPipe ||
					!bytes.Equal(got.Rest, want.Rest) {
					t.Errorf("it tells %+v, the one before %+v", got, want)
				}
				return true
			})
			restorer.Done()
			got, again := make([]byte, w.said), 0
			_ = w.endpoint.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := io.ReadFull(w.endpoint, got); err != nil || !bytes.Equal(got, w.want(0, w.said)) {
				t.Errorf("what the endpoint gets: %v", err)
			}
			// Its keeper is lost, which may live, and then there is another.
			m.GiveAll()
			if _, err := m.Recover(&w.saved, 0, []int{w.src, w.dst}, nil); err != ErrGiven {
				t.Errorf("after the keeper is lost: %v", err)
			}
			r.Core.Moving().Keep(0, true, 1, func(all []*splice.Kept) {
				if _, err := m.Recover(all[0].State, all[0].Slot, all[0].Files, nil); err != nil {
					t.Errorf("by another keeper: %v", err)
				}
				for _, fd := range all[0].Files {
					sysClose(fd)
				}
				again = len(all)
			})
			if again != 1 {
				t.Errorf("%d are kept again", again)
			}
			// It is about to be a successor's, which does not take it.
			_, err = r.Moving().HandOver(t.Context(), func(all []*splice.Departure) (int, error) {
				all[0].Given()
				next := w.saved
				if _, err := m.Recover(&next, 0, []int{w.src, w.dst}, nil); err != ErrGiven {
					t.Errorf("when it is given: %v", err)
				}
				return 0, io.EOF
			})
			if err != io.EOF {
				t.Errorf("it is not given: %v", err)
			}
			eventually(t, func() bool { return m.slots[0].up.given.Load() == 0 }, "the connection to be this one's again")
		})
	}
}
