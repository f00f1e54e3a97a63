package splicetest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
)

// succession is a data path and the next one, which takes over from it: they share a clock.
type succession struct {
	*trial
	old, next     *dataPath
	front, toNext *front // the same service port
	noFront       bool   // the next one has no front for the connections
	ownOld        splice.Stats
	ownNext       splice.Stats
}

// succeeds starts both, with the same front each.
func (t *trial) succeeds(o splice.Options, protocol inet.Protocol, endpoints ...netip.AddrPort) *succession {
	t.Helper()
	s := &succession{trial: t}
	o.Start = time.Now()
	s.old = t.start(o)
	s.front = s.old.open(protocol, loopback, endpoints...)
	o.Account = nil
	if protocol == inet.UDP {
		o.Listen = func(_ service.PortName, at netip.AddrPort) (splice.Inherited, error) {
			fd, err := syscall.Dup(s.front.Files()[s.front.at])
			return splice.Inherited{File: os.NewFile(uintptr(fd), ""), Paused: true}, err
		}
	}
	s.next = t.start(o)
	s.toNext = s.next.open(protocol, loopback, endpoints...)
	s.ownOld, s.ownNext = s.old.Stats(), s.next.Stats()
	return s
}

// errKept is why a successor takes nothing.
var errKept = errors.New("the successor does not take over")

// kept has the connections taken from the engine, and given back to it.
func (s *succession) kept(meanwhile func([]*splice.Departure)) {
	s.Helper()
	_, err := s.old.Moving().HandOver(s.Context(), func(all []*splice.Departure) (int, error) {
		meanwhile(all)
		return 0, errKept
	})
	if err != nil && !errors.Is(err, errKept) {
		s.Fatal(err)
	}
}

// taken hands over what can be, by the protocol and a socket, and returns how many connections are left.
func (s *succession) taken(meanwhile func([]*splice.Departure)) (left int64) {
	s.Helper()
	s.byProtocol(func(to *handover.Successor) error {
		give := to.Give(netip.AddrPort{})
		var err error
		left, err = s.old.Moving().HandOver(s.Context(), func(all []*splice.Departure) (int, error) {
			meanwhile(all)
			return give(all)
		})
		return err
	})
	return left
}

// byProtocol runs a hand-over whose connections and sessions are given so.
func (s *succession) byProtocol(give func(*handover.Successor) error) {
	s.Helper()
	dir, err := os.MkdirTemp("", "splice")
	s.must(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := handover.Listen(path, handover.Identity{})
	s.must(err)
	defer l.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.takeOver(path) }()
	to, err := l.Accept()
	s.must(err)
	defer to.Close()
	s.must(to.AwaitBegin(s.Context()))
	_, err = to.Begun(handover.Begun{LastID: s.old.Moving().LastID()}, longest)
	s.must(err)
	s.must(give(to))
	s.must(to.Done(0))
	s.must(<-ended)
}

// takeOver is the successor's part.
func (s *succession) takeOver(path string) error {
	p, err := handover.Dial(context.Background(), path, handover.Identity{})
	if err != nil {
		return err
	}
	e, err := p.Begin(1 << 20)
	if err != nil {
		return err
	}
	s.next.Moving().SkipIDs(e.LastID)
	r := s.next.Moving().Restorer(func(service.PortName, inet.Family) *splice.Front {
		if s.noFront {
			return nil
		}
		return s.toNext.Front
	})
	defer r.Done()
	_, err = p.Serving(nil, handover.Taker{Conn: r.Conn, Session: r.Session, Batch: func(b *handover.Batch) {
		if b.Resume != nil {
			splice.SessionsAt(s.toNext.Front, s.toNext.at).Resume()
		}
	}})
	return err
}

// noChange is for scenarios in which nothing happens meanwhile.
func noChange([]*splice.Departure) {}

// givenBack expects that both have the resources that they had before the first connection.
func (s *succession) givenBack() {
	s.Helper()
	for _, d := range []struct {
		*dataPath
		own splice.Stats
		*front
	}{{s.old, s.ownOld, s.front}, {s.next, s.ownNext, s.toNext}} {
		s.eventually("all is given back", func() bool {
			n := d.Stats()
			return n.Connections == 0 && n.Sessions == 0 && n.Descriptors-2*n.Pipes == d.own.Descriptors && n.Buffers == 0 &&
				d.Active() == 0
		})
		if n := len(d.records); n > 0 {
			s.Errorf("%d records more", n)
		}
	}
}

// wire is a connection through a data path, with both its ends.
type wire struct {
	t                *trial
	client, endpoint *net.TCPConn
	up, down         stream // what either has sent, or is about to
	sending          sync.WaitGroup
}

// wires is an endpoint that leaves its connections to the scenario.
func wires(t *trial) (netip.AddrPort, <-chan *net.TCPConn) {
	accepted, end := make(chan *net.TCPConn), make(chan struct{})
	t.Cleanup(func() { close(end) })
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		select {
		case accepted <- c:
			<-end
		case <-end:
		}
	}), accepted
}

// connect makes a connection to a front.
func connect(t *trial, f *front, accepted <-chan *net.TCPConn) *wire {
	t.Helper()
	w := &wire{t: t, client: dialTCP(t, f.at)}
	select {
	case w.endpoint = <-accepted:
	case <-time.After(longest):
		t.Fatal("the endpoint was not dialled")
	}
	w.endpoint.SetDeadline(time.Now().Add(longest))
	return w
}

// send has one end send so much, in the background.
func (w *wire) send(from *net.TCPConn, n int, end bool) {
	data := noiseOf(n)
	sent := &w.up
	if from == w.endpoint {
		sent = &w.down
	}
	*sent = append(*sent, data)
	w.sending.Go(func() {
		from.Write(data)
		if end {
			from.CloseWrite()
		}
	})
}

// exchange has a byte pass each way.
func (w *wire) exchange() {
	w.t.Helper()
	for _, way := range [][2]*net.TCPConn{{w.client, w.endpoint}, {w.endpoint, w.client}} {
		way[0].Write([]byte("x"))
		if _, err := io.ReadFull(way[1], make([]byte, 1)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// still waits until nothing moves any more. Something has to.
func (s *succession) still() {
	s.Helper()
	moved, looks := int64(0), 0
	s.eventually("bytes are waiting", func() bool {
		l := liveOf(s.old)
		if n := l.BytesToClient + l.BytesToEndpoint; n != moved {
			moved, looks = n, 0
		}
		looks++
		time.Sleep(10 * time.Millisecond)
		return moved > 0 && looks > 20
	})
}

// ends has both ends read all, end their directions, and checks what came.
func (w *wire) ends() {
	w.t.Helper()
	var reading sync.WaitGroup
	for _, way := range []struct {
		name string
		to   *net.TCPConn
		want stream
	}{{"endpoint", w.endpoint, w.up}, {"client", w.client, w.down}} {
		reading.Go(func() {
			if n, err := way.want.receive(way.to); err != nil || n != way.want.size() {
				w.t.Errorf("the %s got %d bytes of %d: %v", way.name, n, way.want.size(), err)
			}
		})
	}
	w.sending.Wait()
	w.client.CloseWrite()
	w.endpoint.CloseWrite()
	reading.Wait()
}
