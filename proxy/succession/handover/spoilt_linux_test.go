package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/handovertest"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// impatience is how long each side waits for a message that never comes.
const impatience = time.Second

// spoilt is a hand-over between both real ends, with a relay that spoils one message.
type spoilt struct {
	fault         handovertest.Fault
	fromSuccessor bool
	number        int           // of the message
	patience      time.Duration // of both sides

	kinds     [2][]kind // that were sent, the predecessor's first
	came      int       // connections in batches that came whole
	given     int       // connections that the predecessor knows to be the successor's
	successor recordingTaker
	old, new  error // how it went for either
	took      time.Duration
}

const (
	batches  = 3
	perBatch = 4
)

// run runs it to its end.
func (h *spoilt) run(t *testing.T) {
	l, path := listen(t)
	at := socketPath(t)
	r, err := handovertest.NewRelay(at, path, h.pass)
	must(t, err)
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.given, h.old = h.gives(t, l)
	}()
	h.new = h.follows(t, at)
	l.Close() // nobody else comes, if the first message did not
	<-ended
	h.took = time.Since(began)
	r.Close()
}

// pass is the relay's function. It is called for one message at a time, but for the last of either side.
func (h *spoilt) pass(m *handovertest.Message) handovertest.Fate {
	side := 0
	if m.FromSuccessor {
		side = 1
	}
	h.kinds[side] = append(h.kinds[side], kind(m.Bytes[0]))
	if m.FromSuccessor == h.fromSuccessor && m.Number == h.number {
		return h.fault.Spoil(m)
	}
	var b Batch
	if kind(m.Bytes[0]) == batch && decode(m.Bytes, &b) == nil {
		h.came += len(b.Conns)
	}
	return handovertest.Arrives
}

// gives is the predecessor's part.
func (h *spoilt) gives(t *testing.T, l *Listener) (given int, err error) {
	s, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	s.c.step, s.c.slow, s.c.write = h.patience, h.patience, h.patience
	socket := Socket{Kind: Front, Address: netip.MustParseAddrPort("10.0.0.1:80")}
	turn := Turn{State: balance.Saved{Next: socket.Address}}
	err = s.AwaitBegin(t.Context())
	if err == nil {
		err = errors.Join(s.Sockets([]Socket{socket, socket}, []int{descriptor(t), descriptor(t)}), s.Turns([]Turn{turn}))
	}
	if err == nil {
		_, err = s.Begun(Begun{LastID: 1}, h.patience)
	}
	for range batches {
		var all []*splice.Departure
		for range perBatch {
			all = append(all, connection(t, 1))
		}
		if err == nil {
			var n int
			n, err = s.Give(netip.AddrPort{})(all)
			given += n
		}
	}
	if err == nil {
		_, err = s.Give(socket.Address)([]*splice.Departure{session(t, 2)})
	}
	if err == nil {
		err = s.Resume(socket)
	}
	if err == nil {
		err = s.Records([]*record.Record{{ID: 4}})
	}
	if err == nil {
		err = s.Done(0)
	}
	return given, err
}

// follows is the successor's.
func (h *spoilt) follows(t *testing.T, path string) error {
	ctx, cancel := context.WithTimeout(t.Context(), h.patience)
	defer cancel()
	p, err := Dial(ctx, path, own)
	if err != nil {
		return err
	}
	defer p.Close()
	p.c.step, p.c.slow, p.c.write = h.patience, h.patience, h.patience
	e, err := p.Begin(1000)
	if err != nil {
		return err
	}
	h.successor.files = append(h.successor.files, e.Files...)
	_, err = p.Serving([]bool{true, true}, h.successor.taker(t))
	return err
}

// Whatever becomes of any message on its way, no connection has two owners, none is lost but by a message without which
// nobody can know, nobody waits longer than it may, each side says what went wrong, and no descriptor is left open.
func TestSpoiltMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	noLeak(t)
	whole := &spoilt{number: -1, patience: longest}
	whole.run(t)
	if whole.old != nil || whole.new != nil || len(whole.successor.conns) != batches*perBatch {
		t.Fatalf("without a fault: %v, %v, %d connections", whole.old, whole.new, len(whole.successor.conns))
	}
	var stray [2]int
	must(t, syscall.Pipe2(stray[:], syscall.O_CLOEXEC))
	defer closeAll(stray[:])
	var waits sync.WaitGroup
	defer waits.Wait()
	for side, kinds := range whole.kinds {
		for n, k := range kinds {
			for _, f := range handovertest.Faults(stray[0]) {
				h := &spoilt{fault: f, fromSuccessor: side == 1, number: n, patience: longest}
				name := fmt.Sprintf("%s %d %s", k, n, f.Name)
				if f.Name == "stays" {
					h.patience = impatience
					waits.Go(func() { t.Run(name, func(t *testing.T) { h.run(t); h.check(t, k) }) })
				} else {
					t.Run(name, func(t *testing.T) { h.run(t); h.check(t, k) })
				}
			}
		}
	}
}

// check checks the end of it, where a message of that kind was spoilt.
func (h *spoilt) check(t *testing.T, k kind) {
	took := len(h.successor.conns)
	t.Logf("%d were given, %d taken; the predecessor: %v; the successor: %v; it took %s", h.given, took, h.old, h.new,
		h.took.Round(time.Millisecond))
	if h.took > 5*impatience {
		t.Errorf("it took %s", h.took)
	}
	switch {
	case h.fault.Name == "ends": // each is alone
		if took != h.came {
			t.Errorf("the predecessor has died, and %d connections are taken of %d that came", took, h.came)
		}
		if h.given > took {
			t.Errorf("the successor has died, and %d connections are given of %d that it took", h.given, took)
		}
	case errors.Is(h.new, ErrDied) && k != done: // after Done it has
		t.Error("the successor takes the other for dead")
	case took > h.given:
		t.Errorf("%d connections have two owners", took-h.given)
	case took < h.given && k != goAhead:
		t.Errorf("%d connections are lost", h.given-took)
	case took < h.given-perBatch:
		t.Errorf("%d connections are lost by one message", h.given-took)
	}
	if h.old == nil && h.new == nil && took != batches*perBatch {
		t.Errorf("nobody says why only %d connections were taken", took)
	}
}
