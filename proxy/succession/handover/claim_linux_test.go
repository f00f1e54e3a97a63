package handover

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice"
)

// estateOfDead has what a daemon had given to a keeper when it died.
type estateOfDead struct {
	t     *testing.T
	k     *Keeper
	path  string
	peers []net.Conn
	files [][]int // of each connection
}

const connsOfDead = 4

// died has a daemon give a keeper all that a daemon has, and die.
func died(t *testing.T, keepFor time.Duration) *estateOfDead {
	t.Helper()
	k, path := keeperAt(t, keepFor, 1000)
	e := &estateOfDead{t: t, k: k, path: path}
	for range connsOfDead {
		peer, files := pair(t)
		e.peers, e.files = append(e.peers, peer), append(e.files, files)
	}
	a := daemonOf(t, path)
	must(t, a.Keep(Kept{Memory: true}, descriptor(t)))
	must(t, a.Keep(Kept{Sockets: []Socket{{Kind: Front}}}, descriptor(t)))
	must(t, a.Keep(Kept{Pipes: []uint32{7}}, descriptor(t), descriptor(t)))
	for i := range connsOfDead {
		must(t, e.give(a, i, 1))
	}
	awaitDescriptors(t, k, 1+1+2+2*connsOfDead)
	a.Close()
	return e
}

// give gives a connection, in the state that a daemon of that number knows.
func (e *estateOfDead) give(to *Keeping, conn, of int) error {
	kept := keptConnection(uint32(conn), e.files[conn])
	kept.State.Replays = uint8(of)
	return gives(to, []*splice.Kept{kept})
}

// claimed claims all that there is.
func claimed(t *testing.T, k *Keeping) (all []*Remains) {
	t.Helper()
	for {
		r, _, err := k.Claim("")
		must(t, err)
		if r == nil {
			return all
		}
		t.Cleanup(r.Close)
		all = append(all, r)
	}
}

// says returns who says what of each connection, the newest first.
func says(all []*Remains) (of [connsOfDead][]int) {
	for _, r := range all {
		for _, c := range r.Conns {
			of[c.Slot] = append(of[c.Slot], int(c.State.Replays))
		}
	}
	return of
}

// The next daemon dies at any moment between its greeting and the last word on what it has claimed: the one after it
// finds each connection, and of one that may have been touched only what the last one says that touched it.
func TestClaimerDies(t *testing.T) {
	type of = [connsOfDead][]int
	first, second := []int{1}, []int{2}
	both := []int{2, 1}
	steps := []struct {
		name string
		do   func(e *estateOfDead, b *Keeping) error
		want of
	}{
		{"after its greeting", func(*estateOfDead, *Keeping) error { return nil }, of{first, first, first, first}},
		{"after its claim", func(e *estateOfDead, b *Keeping) error {
			if got := says(claimed(e.t, b)); !slices.Equal(got[0], first) {
				return fmt.Errorf("it claims %v", got)
			}
			return nil
		}, of{first, first, first, first}},
		{"after it gave its memory", func(e *estateOfDead, b *Keeping) error {
			return b.Keep(Kept{Memory: true}, descriptor(e.t))
		}, of{first, first, first, first}},
		{"after it gave two", func(e *estateOfDead, b *Keeping) error {
			return errors.Join(e.give(b, 0, 2), e.give(b, 1, 2))
		}, of{both, both, first, first}},
		{"after it settled these", func(e *estateOfDead, b *Keeping) error {
			return b.Settled(0, []uint32{0, 1}, []uint32{7})
		}, of{second, second, first, first}},
		{"after it gave the others, but for one", func(e *estateOfDead, b *Keeping) error { return e.give(b, 2, 2) },
			of{second, second, both, first}},
		{"after it settled all", func(e *estateOfDead, b *Keeping) error { return b.AllSettled() },
			of{second, second, second, nil}},
	}
	for at, last := range steps {
		t.Run(last.name, func(t *testing.T) {
			noLeak(t)
			e := died(t, time.Minute)
			b := daemonOf(t, e.path)
			for _, step := range steps[:at+1] {
				if err := step.do(e, b); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
			}
			b.Close()
			c := daemonOf(t, e.path)
			all := claimed(t, c)
			if got := says(all); fmt.Sprint(got) != fmt.Sprint(last.want) {
				t.Errorf("of the connections is said %v, want %v", got, last.want)
			}
			listeners := 0
			for _, r := range all {
				listeners += len(r.Files)
			}
			if listeners != 1 {
				t.Errorf("%d listeners are claimed", listeners)
			}
			must(t, c.AllSettled())
			must(t, c.Bye())
			awaitDescriptors(t, e.k, 0)
		})
	}
}

// While the daemon lives that has claimed, nobody else can.
func TestClaimedByOne(t *testing.T) {
	noLeak(t)
	e := died(t, time.Minute)
	b := daemonOf(t, e.path)
	if n := len(claimed(t, b)); n != 1 {
		t.Fatalf("%d stores are claimed", n)
	}
	c := daemonOf(t, e.path)
	if r, _, err := c.Claim(""); r != nil || err != nil {
		t.Errorf("claimed twice: %v, %v", r, err)
	}
	must(t, b.AllSettled())
	must(t, errors.Join(b.Bye(), c.Bye()))
}

// A daemon that says nothing of what it claims, as older ones, has it for good.
func TestClaimerOfBefore(t *testing.T) {
	noLeak(t)
	e := died(t, time.Minute)
	var r Room
	c, err := greet(t.Context(), e.path, Hello{Protocol: Protocol}, &r)
	must(t, err)
	b := &Keeping{c: c}
	must(t, b.c.send(claim, nil))
	rest, _, _, err := b.answer()
	must(t, err)
	rest.Close()
	if len(rest.Conns) != connsOfDead {
		t.Errorf("%d connections are claimed", len(rest.Conns))
	}
	awaitDescriptors(t, e.k, 0)
	b.Close()
	next := daemonOf(t, e.path)
	if r, _, err := next.Claim(""); r != nil || err != nil {
		t.Errorf("claimed again: %v, %v", r, err)
	}
	must(t, next.Bye())
}

// Connections that nobody settles are reset once their time is over, also if they are claimed and left again and again.
func TestUnsettledIsReset(t *testing.T) {
	const keepFor = 300 * time.Millisecond
	began := time.Now()
	e := died(t, keepFor)
	reset := make(chan error, 1)
	go func() {
		_ = e.peers[0].SetReadDeadline(time.Now().Add(longest))
		_, err := e.peers[0].Read(make([]byte, 1))
		reset <- err
	}()
	for {
		select {
		case err := <-reset:
			if !isReset(err) || time.Since(began) < keepFor {
				t.Errorf("after %s the client sees %v", time.Since(began), err)
			}
			return
		default:
		}
		b := daemonOf(t, e.path)
		for _, r := range claimed(t, b) {
			r.Close()
			*r = Remains{Memory: -1}
		}
		b.Close()
	}
}

// A successor that knows its predecessor to be dead gets what that has left, however long the kernel takes to close
// what it had open.
func TestClaimOfOneThatIsEnding(t *testing.T) {
	noLeak(t)
	_, path := keeperAt(t, time.Minute, 1000)
	next := daemonOf(t, path)
	defer next.Close()
	dying, err := FindKeeper(t.Context(), path, Identity{Instance: "dying"}, nil)
	must(t, err)
	must(t, dying.Keep(Kept{Memory: true}, descriptor(t)))
	_, files := pair(t)
	must(t, gives(dying, []*splice.Kept{keptConnection(1, files)}))
	time.AfterFunc(deathNoticeTime+deathNoticeTime/2, dying.Close)
	r, of, err := next.Claim("dying")
	must(t, err)
	if r == nil || len(r.Conns) != 1 || of != "dying" {
		t.Fatalf("claimed %+v of %q", r, of)
	}
	r.Close()
}

// A daemon that has lost its keeper for a while lives: what that had of it, and of those whose connections it carries,
// is outdated as soon as it gives all again, and not before.
func TestOutdated(t *testing.T) {
	noLeak(t)
	e := died(t, time.Minute)
	b := daemonOf(t, e.path)
	r, of, err := b.Claim("")
	must(t, err)
	r.Close()
	me := Identity{Instance: "me"}
	left := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d stores to be left", want), func() error {
			e.k.mu.Lock()
			defer e.k.mu.Unlock()
			if n := len(e.k.left); n != want || len(e.k.served) > 0 {
				return fmt.Errorf("%d are, and %d daemons are served", n, len(e.k.served))
			}
			return nil
		})
	}
	b.Close()
	left(1)
	mine, err := FindKeeper(t.Context(), e.path, me, nil)
	must(t, err)
	must(t, e.give(mine, 0, 2))
	mine.Close()
	left(2)
	looks, err := FindKeeper(t.Context(), e.path, me, nil) // as one that dies before it gives anything
	must(t, err)
	looks.Close()
	left(2)
	again, err := FindKeeper(t.Context(), e.path, me, []string{of})
	must(t, err)
	must(t, again.Keep(Kept{Memory: true}, descriptor(t)))
	awaitDescriptors(t, e.k, 1)
	must(t, again.Bye())
	left(0)
}

// Connections that a predecessor had sent and not confirmed when it died may still be claimed by its notes, which the
// successor has to invalidate first. If that fails it takes none of them.
func TestUnconfirmed(t *testing.T) {
	for _, may := range []bool{true, false} {
		t.Run(fmt.Sprintf("may be taken %t", may), func(t *testing.T) {
			noLeak(t)
			p, s := served(t, 1000)
			var h recordingTaker
			to := h.taker(t)
			announced := 0
			to.Died = func(b *Batch) bool {
				if announced = len(b.Conns); len(h.conns) > 0 {
					t.Error("it was taken before")
				}
				return may
			}
			end := make(chan error, 1)
			go func() {
				_, err := p.Serving(nil, to)
				end <- err
			}()
			awaitServing(t, s)
			d := connection(t, 1)
			must(t, s.c.send(batch, &Batch{Conns: []*splice.SavedConn{d.Conn}}, d.Files...))
			must(t, s.c.expect(taken, nil, longest))
			s.c.close()
			want := 0
			if may {
				want = 1
			}
			if err := <-end; !errors.Is(err, ErrDied) || announced != 1 || len(h.conns) != want {
				t.Errorf("%v, asked for %d, %d were taken", err, announced, len(h.conns))
			}
		})
	}
}

// A predecessor marks its notes before its successor may go on.
func TestGivenBeforeGo(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1000)
	d := connection(t, 1)
	var h recordingTaker
	to := h.taker(t)
	var marked, early atomic.Bool
	d.Given = func() { marked.Store(true) }
	to.Conn = func(_ *splice.SavedConn, files []int) {
		early.Store(!marked.Load())
		closeAll(files)
	}
	end := make(chan error, 1)
	go func() {
		_, err := p.Serving(nil, to)
		end <- err
	}()
	awaitServing(t, s)
	if n, err := s.Give(netip.AddrPort{})([]*splice.Departure{d}); n != 1 || err != nil {
		t.Errorf("%d are given: %v", n, err)
	}
	must(t, s.Done(0))
	if err := <-end; err != nil || early.Load() {
		t.Errorf("%v, and it goes on before the notes are marked: %t", err, early.Load())
	}
}

// Descriptors that come with a message that has none are closed.
func TestStrayDescriptorsForKeeper(t *testing.T) {
	for name, c := range map[string]struct {
		k    kind
		body any
	}{
		"Dropped": {drops, Dropped{Slots: []uint32{1}}}, "Claim": {claim, nil}, "Settled": {settles, Settled{}},
		"Ping": {ping, nil}, "Bye": {bye, nil}, "Hello": {hello, Hello{}}, "nonsense": {kind(99), nil},
		"Kept": {keeps, Kept{Sockets: []Socket{{Kind: Front}}}},
	} {
		t.Run(name, func(t *testing.T) {
			k, path := keeperAt(t, time.Minute, 1000)
			d := daemonOf(t, path)
			var files []int
			for range 10 {
				files = append(files, descriptor(t))
			}
			before := open(t)
			must(t, d.c.send(c.k, c.body, files...))
			eventually(t, "the descriptors to be closed", func() error {
				k.mu.Lock()
				defer k.mu.Unlock()
				if n := open(t); n > before || k.descriptors > 0 {
					return fmt.Errorf("%d are open, %d were, and the keeper holds %d", n, before, k.descriptors)
				}
				return nil
			})
		})
	}
}

// A keeper that stands still is noticed in the time that it has for an answer, whether or not anything is sent.
func TestKeeperStandsStill(t *testing.T) {
	noLeak(t)
	path := socketPath(t)
	l, err := platform.ListenPrivate(platform.PacketSocket, path) // which answers the greeting, and then no more
	must(t, err)
	defer l.Close()
	go func() {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		end, err := newChannel(c)
		if err != nil {
			return
		}
		defer end.close()
		_ = end.expect(hello, nil, longest)
		_ = end.send(welcome, Room{Files: 1 << 20, Settles: true})
		<-t.Context().Done()
	}()
	k, err := FindKeeper(t.Context(), path, own, nil)
	must(t, err)
	defer k.Close()
	k.c.step, k.c.write = 200*time.Millisecond, 200*time.Millisecond
	must(t, k.Ping())
	eventually(t, "the silence to be noticed", func() error {
		if err := k.Ping(); !errors.Is(err, ErrSilent) {
			return fmt.Errorf("it is %v", err)
		}
		return nil
	})
	_, files := pair(t)
	began := time.Now()
	for err == nil { // until its buffer is full
		err = gives(k, []*splice.Kept{keptConnection(1, files)})
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > longest {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
