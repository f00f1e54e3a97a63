package handover

import (
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

var own = Identity{Installation: "this one", Version: "1.2.3", PID: 7}

// longest is how long anything may take on a busy machine.
const longest = 30 * time.Second

// socketPath is a path for a Unix socket, which may not be long.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "handover")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen listens as a predecessor does.
func listen(t testing.TB) (*Listener, string) {
	t.Helper()
	path := socketPath(t)
	l, err := Listen(path, own)
	must(t, err)
	t.Cleanup(l.Close)
	return l, path
}

// meet returns both ends of a hand-over that have greeted each other.
func meet(t testing.TB) (*Predecessor, *Successor) {
	t.Helper()
	l, path := listen(t)
	type accepted struct {
		s   *Successor
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		s, err := l.Accept()
		got <- accepted{s, err}
	}()
	p, err := Dial(t.Context(), path, own)
	must(t, err)
	t.Cleanup(p.Close)
	a := <-got
	must(t, a.err)
	t.Cleanup(a.s.c.close)
	return p, a.s
}

// raw returns both ends of a channel, without a greeting.
func raw(t testing.TB) (a, b *channel) {
	t.Helper()
	path := socketPath(t)
	l, err := platform.ListenPrivate(platform.PacketSocket, path)
	must(t, err)
	defer l.Close()
	dialled, err := dialRaw(path)
	must(t, err)
	accepted, err := l.AcceptUnix()
	must(t, err)
	a, err = newChannel(dialled)
	must(t, err)
	t.Cleanup(a.close)
	b, err = newChannel(accepted)
	must(t, err)
	t.Cleanup(b.close)
	return a, b
}

// begins comes to the end of Begin and Begun at both ends.
func begins(t testing.TB, p *Predecessor, s *Successor, room int) *Inheritance {
	t.Helper()
	type result struct {
		e   *Inheritance
		err error
	}
	got := make(chan result, 1)
	go func() {
		e, err := p.Begin(room)
		got <- result{e, err}
	}()
	must(t, s.AwaitBegin(t.Context()))
	must(t, s.c.send(begun, Begun{LastID: 5}))
	r := <-got
	must(t, r.err)
	return r.e
}

// served comes to where batches are passed on.
func served(t testing.TB, room int) (*Predecessor, *Successor) {
	t.Helper()
	p, s := meet(t)
	begins(t, p, s, room)
	return p, s
}

// connection is one that may be passed on, with as many descriptors as it has; they end with the test.
func connection(t testing.TB, id uint64) *splice.Departure {
	t.Helper()
	d := &splice.Departure{Conn: &splice.SavedConn{SavedLife: life(id)}}
	for range d.Conn.Files() {
		d.Files = append(d.Files, descriptor(t))
	}
	return d
}

func session(t testing.TB, id uint64) *splice.Departure {
	t.Helper()
	s := &splice.SavedSession{SavedLife: life(id), Local: netip.MustParseAddr("10.0.0.1"), Unanswered: []byte("ask")}
	return &splice.Departure{Session: s, Files: []int{descriptor(t)}}
}

func life(id uint64) splice.SavedLife {
	endpoint := netip.MustParseAddrPort("10.1.0.3:8080")
	return splice.SavedLife{
		Service: service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}, ID: id,
		Client:      netip.MustParseAddrPort("192.0.2.1:1024"),
		OriginalDst: netip.MustParseAddrPort("10.96.0.10:80"),
		Endpoint:    service.Endpoint{Addr: endpoint}, Attempts: []record.Attempt{{Endpoint: endpoint, Times: 1}},
	}
}

// descriptor is one of a file of its own.
func descriptor(t testing.TB) int {
	t.Helper()
	var fds [2]int
	must(t, syscall.Pipe2(fds[:], syscall.O_CLOEXEC))
	must(t, syscall.Close(fds[1]))
	t.Cleanup(func() { syscall.Close(fds[0]) })
	return fds[0]
}

// same tells whether two descriptors are of one file.
func same(t testing.TB, a, b int) bool {
	t.Helper()
	var of [2]syscall.Stat_t
	must(t, syscall.Fstat(a, &of[0]))
	must(t, syscall.Fstat(b, &of[1]))
	return of[0].Ino == of[1].Ino && of[0].Dev == of[1].Dev
}

// open returns how many descriptors the process has open.
func open(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// noLeak has the test fail if it leaves descriptors open. It is called first.
func noLeak(t *testing.T) {
	before := open(t)
	t.Cleanup(func() {
		for end := time.Now().Add(longest); open(t) > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%d descriptors are open, %d were", open(t), before)
				return
			}
		}
	})
}

// recordingTaker is a Taker that keeps what it takes.
type recordingTaker struct {
	conns    []*splice.SavedConn
	sessions []*splice.SavedSession
	files    []int
	batches  int
}

func (h *recordingTaker) taker(t testing.TB) Taker {
	t.Cleanup(func() { closeAll(h.files) })
	return Taker{
		Conn: func(s *splice.SavedConn, files []int) {
			h.conns, h.files = append(h.conns, s), append(h.files, files...)
		},
		Session: func(_ netip.AddrPort, s *splice.SavedSession, file int) bool {
			h.sessions, h.files = append(h.sessions, s), append(h.files, file)
			return true
		},
		Batch: func(*Batch) { h.batches++ },
	}
}

// serves has the successor take what comes, and returns how that ended.
func (h *recordingTaker) serves(t testing.TB, p *Predecessor) <-chan error {
	end, to := make(chan error, 1), h.taker(t)
	go func() {
		_, err := p.Serving(nil, to)
		end <- err
	}()
	return end
}

// awaitServing is the predecessor's part of that.
func awaitServing(t testing.TB, s *Successor) {
	t.Helper()
	must(t, s.c.expect(serving, nil, longest))
}
