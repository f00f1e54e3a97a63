package handover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func dialRaw(path string) (*net.UnixConn, error) {
	return net.DialUnix(platform.PacketSocket, nil, &net.UnixAddr{Name: path, Net: platform.PacketSocket})
}

// All that there is, is passed on, and both ends agree that it was.
func TestDialogue(t *testing.T) {
	noLeak(t)
	p, s := meet(t)
	if p.PID != own.PID || p.Version != own.Version || s.PID != own.PID || !s.TakesState() {
		t.Errorf("greeted as %+v and %+v", p.Welcome, s.Hello)
	}
	const sockets, bound, conns = 450, 3000, 200
	var all []Socket
	var files []int
	one := descriptor(t)
	for i := range sockets {
		at := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(i+1))
		all, files = append(all, Socket{Kind: Front, Address: at}), append(files, one)
	}
	turn := Turn{Family: inet.IPv6, State: balance.Saved{Next: netip.MustParseAddrPort("10.1.0.3:80")}}
	for i := range bound {
		client := netip.AddrFrom4([4]byte{1, 2, byte(i >> 8), byte(i)})
		turn.State.Bindings = append(turn.State.Bindings, balance.Binding{Client: client})
	}
	passed := make(chan error, 1)
	taken := make(chan []bool, 1)
	var given []*splice.Departure
	for i := range conns {
		given = append(given, connection(t, uint64(i)))
	}
	talk := session(t, 1000)
	records := []*record.Record{{
		ID: 4, CarriedBy: record.Userspace, Start: time.Date(2026, 11, 21, 13, 0, 1, 123456789, time.UTC),
		Client: talk.Session.Client, Attempts: talk.Session.Attempts, Connect: -1, FirstByte: time.Second,
		ClosedBy: record.Endpoint, CloseType: record.Reset, Outcome: record.OutcomeEndpointReset,
		Error: "connection reset by peer", Errno: syscall.ECONNRESET, ClientTCP: record.TCPInfo{Known: true, RTT: 1},
	}, {ID: 5}}
	go func() {
		passed <- func() error {
			err := errors.Join(s.AwaitBegin(t.Context()), s.Sockets(all, files), s.Turns([]Turn{turn}))
			if err != nil {
				return err
			}
			serves, err := s.Begun(Begun{LastID: 9, Drained: []Drained{{Forced: true}}}, longest)
			taken <- serves
			if err != nil {
				return err
			}
			n, err := s.Give(netip.AddrPort{})(given)
			if n != conns || err != nil {
				return errors.Join(errors.New("not all were taken"), err)
			}
			_, err = s.Give(netip.MustParseAddrPort("10.0.0.1:53"))([]*splice.Departure{talk})
			return errors.Join(err, s.Resume(all[0]), s.Changed([]Turn{turn}), s.Records(records),
				s.Done(3))
		}()
	}()
	e, err := p.Begin(1 << 20)
	must(t, err)
	t.Cleanup(func() { closeAll(e.Files) })
	bindings := 0
	for _, turn := range e.Turns {
		bindings += len(turn.State.Bindings)
	}
	if len(e.Sockets) != sockets || len(e.Files) != sockets || bindings != bound || e.LastID != 9 || !e.Drained[0].Forced {
		t.Errorf("%d sockets, %d descriptors, %d clients bound, %+v", len(e.Sockets), len(e.Files), bindings, e.Begun)
	}
	if !slices.Equal(e.Sockets, all) || !same(t, e.Files[0], one) {
		t.Error("these are other sockets")
	}
	var h recordingTaker
	to := h.taker(t)
	var rest []*Batch
	to.Batch = func(b *Batch) { rest = append(rest, b) }
	left, err := p.Serving([]bool{true, false}, to)
	must(t, err)
	must(t, <-passed)
	if serves := <-taken; left != 3 || !slices.Equal(serves, []bool{true, false}) {
		t.Errorf("%d left, listens at %v", left, serves)
	}
	if len(h.conns) != conns || len(h.sessions) != 1 || len(h.files) != 2*conns+1 {
		t.Fatalf("%d connections and %d sessions with %d descriptors", len(h.conns), len(h.sessions), len(h.files))
	}
	for i, c := range h.conns {
		if !reflect.DeepEqual(c, given[i].Conn) || !same(t, h.files[2*i], given[i].Files[0]) ||
			!same(t, h.files[2*i+1], given[i].Files[1]) {
			t.Fatalf("connection %d came as %+v, was %+v", i, c, given[i].Conn)
		}
	}
	if !reflect.DeepEqual(h.sessions[0], talk.Session) {
		t.Errorf("the session came as %+v, was %+v", h.sessions[0], talk.Session)
	}
	var resumed, changed int
	var recorded []*record.Record
	for _, b := range rest {
		if recorded = append(recorded, b.Records...); b.Resume != nil {
			resumed++
		}
		for _, turn := range b.Turns {
			changed += len(turn.State.Bindings)
		}
	}
	if resumed != 1 || changed != bound {
		t.Errorf("%d sockets to resume, %d changed bindings", resumed, changed)
	}
	if !reflect.DeepEqual(recorded, records) {
		t.Errorf("the records came as %+v, were %+v", *recorded[0], *records[0])
	}
}

// The largest of each kind has room in a message, and among others too.
func TestLargest(t *testing.T) {
	noLeak(t)
	p, s := served(t, 1<<20)
	var h recordingTaker
	end := h.serves(t, p)
	awaitServing(t, s)
	attempts := slices.Repeat([]record.Attempt{{
		Endpoint: netip.MustParseAddrPort("[fd00:10:244:1::ffff]:65535"),
		Proxy:    netip.MustParseAddrPort("[fd00:10:244:2::ffff]:65535"),
		Took:     time.Hour, Err: "no route to host, or another error with so many words", Times: 1 << 30,
	}}, 33)
	var given []*splice.Departure
	for i := range 200 {
		d := connection(t, uint64(i))
		d.Conn.Attempts = attempts
		if i%70 > 60 {
			d.Conn.Up.Rest, d.Conn.Down.Rest = make([]byte, maxRest), make([]byte, maxRest)
		}
		given = append(given, d)
	}
	if n, err := s.Give(netip.AddrPort{})(given); n != len(given) || err != nil {
		t.Fatalf("%d of %d were taken: %v", n, len(given), err)
	}
	var records []*record.Record
	for range 500 {
		records = append(records, &record.Record{Start: time.Now(), Client: attempts[0].Endpoint, Attempts: attempts})
	}
	must(t, s.Records(records))
	must(t, s.Done(0))
	must(t, <-end)
	if len(h.conns) != len(given) {
		t.Errorf("%d connections came of %d", len(h.conns), len(given))
	}
}

// Who speaks another protocol, or is another installation, is refused, and told why. One that knows other states is
// greeted.
func TestGreeting(t *testing.T) {
	noLeak(t)
	for name, c := range map[string]struct {
		hello Hello
		why   string // empty: it is greeted
	}{
		"protocol": {Hello{Identity: own, Protocol: Protocol + 1, State: State}, "version"},
		"installation": {Hello{Identity: Identity{Installation: "that one"}, Protocol: Protocol, State: State},
			`"this one", not "that one"`},
		"state": {Hello{Identity: own, Protocol: Protocol, State: State + 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, path := listen(t)
			conn, err := dialRaw(path)
			must(t, err)
			end, err := newChannel(conn)
			must(t, err)
			defer end.close()
			must(t, end.send(hello, c.hello))
			s, err := l.Accept()
			answer := end.expect(welcome, nil, longest)
			if c.why != "" {
				if err == nil || answer == nil || !strings.Contains(answer.Error(), c.why) {
					t.Errorf("accepted: %v; told %v", err, answer)
				}
				return
			}
			must(t, err)
			defer s.Close()
			if answer != nil || s.TakesState() {
				t.Errorf("told %v, and takes the state: %t", answer, s.TakesState())
			}
		})
	}
}

// Callers that say nothing hold up none that says who it is.
func TestSilentCallers(t *testing.T) {
	l, path := listen(t)
	for range maxGreeted - 1 {
		conn, err := dialRaw(path)
		must(t, err)
		defer conn.Close()
	}
	began := time.Now()
	p, err := Dial(t.Context(), path, own)
	must(t, err)
	defer p.Close()
	s, err := l.Accept()
	must(t, err)
	defer s.c.close()
	if took := time.Since(began); took > step/2 {
		t.Errorf("it was greeted after %s", took)
	}
}

// A successor that works may take its time. One that says nothing for a while has stood still: the predecessor goes on,
// tells it so, and hears of its end.
func TestSuccessorWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	noLeak(t)
	for _, c := range []struct {
		name  string
		hello Hello
		works func(p *Predecessor) (stop func())
		takes time.Duration // until the successor serves
		ok    bool
	}{
		{"works", Hello{Works: true}, (*Predecessor).Working, 3 * workingEvery / 2, true},
		{"stands still", Hello{Works: true}, func(*Predecessor) func() { return func() {} }, silence + workingEvery, false},
		{"does not know Working", Hello{}, func(*Predecessor) func() { return func() {} }, workingEvery / 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := meet(t)
			if !p.Works {
				t.Fatal("the predecessor does not say that it knows Working")
			}
			s.Works = c.hello.Works
			begun := make(chan error, 1)
			go func() {
				err := s.AwaitBegin(t.Context())
				if err == nil {
					_, err = s.Begun(Begun{}, longest)
				}
				begun <- err
			}()
			_, err := p.Begin(10)
			must(t, err)
			stop := c.works(p)
			time.Sleep(c.takes)
			stop()
			sent := p.c.send(serving, Serving{})
			if err := <-begun; (err == nil) != c.ok {
				t.Fatalf("the predecessor: %v", err)
			} else if c.ok {
				must(t, sent)
				s.c.close()
				return
			}
			ended := make(chan struct{})
			go func() {
				s.AwaitEnd(t.Context())
				close(ended)
			}()
			if err := p.c.expect(batch, nil, longest); !errors.Is(err, ErrAborted) {
				t.Errorf("the successor is told %v", err)
			}
			select {
			case <-ended:
				t.Error("the predecessor does not wait for its end")
			default:
			}
			p.Close()
			<-ended
			s.c.close()
		})
	}
}

// Without a daemon that hands over there is ErrNone.
func TestNone(t *testing.T) {
	if _, err := Dial(t.Context(), socketPath(t), own); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// Nor is there one that ends before it answers: another may serve the node by now.
func TestEndsBeforeItAnswers(t *testing.T) {
	for name, hears := range map[string]bool{"it has heard its caller": true, "it has not": false} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			path := socketPath(t)
			l, err := platform.ListenPrivate(platform.PacketSocket, path)
			must(t, err)
			defer l.Close()
			answer := make(chan error, 1)
			go func() {
				_, err := Dial(t.Context(), path, own)
				answer <- err
			}()
			conn, err := l.AcceptUnix()
			must(t, err)
			if hears {
				_, err := conn.Read(make([]byte, maxMessage))
				must(t, err)
			}
			must(t, conn.Close())
			if err := <-answer; !errors.Is(err, ErrNone) {
				t.Errorf("%v, want ErrNone", err)
			}
		})
	}
}

// A daemon that is told to end does not wait for a successor that is not ready.
func TestAwaitBeginEnds(t *testing.T) {
	for range 200 {
		_, s := meet(t)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		ended := make(chan error, 1)
		go func() { ended <- s.AwaitBegin(ctx) }()
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("nobody began")
			}
		case <-time.After(longest):
			t.Fatal("it waits on")
		}
	}
}

// A successor without room for all descriptors is refused before it gets any.
func TestNoRoom(t *testing.T) {
	noLeak(t)
	p, s := meet(t)
	refused := make(chan error, 1)
	go func() {
		_, err := p.Begin(3)
		refused <- err
	}()
	must(t, s.AwaitBegin(t.Context()))
	one := descriptor(t)
	if err := s.Sockets(make([]Socket, 4), []int{one, one, one, one}); err == nil {
		t.Error("it was not refused")
	}
	s.Close()
	if err := <-refused; !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
}
