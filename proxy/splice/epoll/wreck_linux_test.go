package epoll

import (
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// wreck has what a process left that died in the middle of carrying from a client to an endpoint.
type wreck struct {
	t                *testing.T
	m                *Memory
	client, endpoint *net.TCPConn // the peers
	src, dst         int          // the sockets that were kept
	saved            splice.SavedConn
	slot             uint32
	pipe             [2]int
	said             int64 // by the client so far
}

func newWreck(t *testing.T) *wreck {
	m, err := NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	w := &wreck{t: t, m: m}
	w.client, w.src = tcpPair(t)
	w.endpoint, w.dst = tcpPair(t)
	w.say(1000) // before it is kept
	w.take(1000, w.scratch())
	w.give(w.scratch()[:1000])
	w.slot, _ = m.takeSlot()
	up, down := flow{carried: 1000, passed: 1000}, flow{}
	w.saved.Up, w.saved.Down = up.position(w.src, w.dst), down.position(w.dst, w.src)
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	w.pipe = fds
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return w
}

// tcpPair is a connection: the peer, and the descriptor of the other end.
func tcpPair(t *testing.T) (*net.TCPConn, int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	t.Cleanup(func() { peer.Close(); f.Close() })
	if err := unix.SetNonblock(int(f.Fd()), true); err != nil {
		t.Fatal(err)
	}
	streamOptions(int(f.Fd()))
	return peer.(*net.TCPConn), int(f.Fd())
}

func (w *wreck) mem() *flowMemory     { return &w.m.slots[w.slot].up }
func (w *wreck) scratch() []byte      { return w.m.buffer(0)[:] }
func (w *wreck) byteAt(at int64) byte { return byte(at*7 + at>>8) }
func (w *wreck) want(from, to int64) (b []byte) {
	for at := from; at < to; at++ {
		b = append(b, w.byteAt(at))
	}
	return b
}

// say has the client send n bytes, and waits until they have arrived.
func (w *wreck) say(n int64) {
	w.t.Helper()
	w.client.Write(w.want(w.said, w.said+n))
	w.said += n
	eventually(w.t, func() bool {
		unread, _ := unix.IoctlGetInt(w.src, unix.SIOCINQ)
		return int64(unread) >= n
	}, "the client's bytes arrive")
}

// take reads n bytes as the process did.
func (w *wreck) take(n int, into []byte) {
	w.t.Helper()
	if got, e := sysRecv(w.src, into[:n]); e != 0 || got != n {
		w.t.Fatalf("read %d of %d: %v", got, n, e)
	}
}

// give writes bytes to the endpoint as the process did.
func (w *wreck) give(b []byte) {
	w.t.Helper()
	if n, e := sysSend(w.dst, b); e != 0 || n != len(b) {
		w.t.Fatalf("wrote %d of %d: %v", n, len(b), e)
	}
}

// answers has the notes about the stream to the client.
func (w *wreck) answers() *flowMemory { return &w.m.slots[w.slot].down }

// resume has the next process go on with the connection.
func (w *wreck) resume(s *splice.SavedConn) {
	w.t.Helper()
	files, err := w.m.Recover(s, w.slot, dup(w.t, w.src, w.dst), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, fd := range []int{w.src, w.dst} { // nobody keeps them any more
		if err := unix.Dup3(w.m.File(), fd, 0); err != nil {
			w.t.Fatal(err)
		}
	}
	w.client.SetReadDeadline(time.Now().Add(10 * time.Second))
	at := netip.MustParseAddrPort("127.0.0.1:1")
	s.Client, s.OriginalDst, s.Attempts = at, at, []record.Attempt{{Endpoint: at}}
	r := newRigWith(w.t, splice.Options{}, func(c *splice.Core) (*engine, error) { return open(c, 1, nil, nil) })
	restorer := r.Moving().Restorer(func(service.PortName, inet.Family) *splice.Front { return nil })
	restorer.Stand(s, files)
	restorer.KeepStanding(func([]*splice.Kept) bool { return false })
	restorer.Done()
	if rec := r.record(w.t); rec.Outcome != record.OutcomeOK {
		w.t.Errorf("outcome %s", rec.Outcome)
	}
}

// reset has the client reset the connection, and waits until that has arrived.
func (w *wreck) reset() {
	w.t.Helper()
	w.client.SetLinger(0)
	w.client.Close()
	eventually(w.t, func() bool { c, _ := countsOf(w.src); return c.closed }, "the reset arrives")
}

// dup are duplicates, which somebody else closes.
func dup(t *testing.T, files ...int) (all []int) {
	t.Helper()
	for _, fd := range files {
		d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// pipeKeeper keeps pipes.
type pipeKeeper struct {
	noKeeper
	mu    sync.Mutex
	pipes map[uint32][2]int // guarded by mu
}

func (k *pipeKeeper) PipeOpened(id uint32, r, w int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pipes[id] = [2]int{r, w}
}

func (k *pipeKeeper) all() map[uint32][2]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.pipes)
}

// splice moves n bytes by a pipe.
func (w *wreck) splice(from, to, n int) {
	w.t.Helper()
	if got, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_NONBLOCK); err != nil || got != int64(n) {
		w.t.Fatalf("spliced %d of %d: %v", got, n, err)
	}
}

func (w *wreck) awaitFIN() {
	eventually(w.t, func() bool {
		i, _ := tcpInfoOf(w.src)
		return i.State == tcpCloseWait
	}, "the FIN arrives")
}
