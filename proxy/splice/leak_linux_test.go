package splice

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/proxy/service"
)

func timeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// command runs one test of this binary in a process of its own.
func command(t *testing.T, test string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), "SPLICE_CHILD=1")
	return cmd
}

type usage struct {
	goroutines, descriptors int
	heap                    uint64
}

func measure(t *testing.T) usage {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), len(fds), m.HeapAlloc}
}

// After ten thousand connections of every ending, everything is back where it was.
func TestNoLeak(t *testing.T) {
	const rounds, workers = 10000, 50
	var outcomes sync.Map
	policy := service.Policy{HalfClose: 30 * time.Millisecond, ConnectTimeouts: []time.Duration{20 * time.Millisecond, 20 * time.Millisecond}}
	opts := Options{Policy: policy,
		Observe: func(service.PortName) Observer {
			return ObserverFunc(func(r *Record) {
				n, _ := outcomes.LoadOrStore(r.Outcome, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			})
		}}
	e, err := New(opts, OpenEpoll(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var run sync.WaitGroup
	run.Go(func() { e.Run(ctx) })
	r := &rig{Core: e}

	live := serveTCP(t, "127.0.0.1", echo)
	moody := serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		c.SetLinger(0)
	})
	deaf := serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		time.Sleep(200 * time.Millisecond) // longer than a half-closed connection may be silent
	})
	_, good := r.open(t, service.TCP, "127.0.0.1", live)
	_, retried := r.open(t, service.TCP, "127.0.0.1", refusing(t), live)
	_, resets := r.open(t, service.TCP, "127.0.0.1", moody)
	_, dead := r.open(t, service.TCP, "127.0.0.1", refusing(t))
	_, mute := r.open(t, service.TCP, "127.0.0.1", silent(t))
	_, empty := r.open(t, service.TCP, "127.0.0.1")
	_, half := r.open(t, service.TCP, "127.0.0.1", deaf)
	ways := []struct {
		at    netip.AddrPort
		reset bool
		bytes int
	}{{good, false, 1}, {good, true, 1}, {good, false, 300 << 10}, {good, true, 300 << 10}, {retried, false, 1}, {resets, false, 1}, {dead, false, 1}, {mute, false, 1}, {empty, false, 1}, {half, false, 1}}

	use := func(i int) {
		w := ways[i%len(ways)]
		if (w.at == mute || w.at == half) && i%40 > 10 {
			w = ways[0] // the slow endings are a tenth of their share
		}
		c, err := net.Dial("tcp", w.at.String())
		if errors.Is(err, syscall.ECONNRESET) {
			return // refused that early that dialling saw it
		}
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		if w.reset {
			c.(*net.TCPConn).SetLinger(0)
			c.Write(make([]byte, w.bytes))
			return
		}
		go func() {
			c.Write(make([]byte, w.bytes))
			c.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(io.Discard, c)
	}
	load := func(n int) {
		var wg sync.WaitGroup
		var next atomic.Int64
		for range workers {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					use(int(i))
				}
			})
		}
		wg.Wait()
		for deadline := time.Now().Add(10 * time.Second); e.Stats().Connections > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections never ended", e.Stats().Connections)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}

	load(1000) // pools and tables grow to their size
	before := measure(t)
	load(rounds)
	after := measure(t)
	for deadline := time.Now().Add(5 * time.Second); after.goroutines > before.goroutines+5 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond) // the test's own endpoints end a little later
		after = measure(t)
	}
	t.Logf("before %+v, after %+v", before, after)
	pooled := 2 * pipesKept * len(e.engine.(*epollEngine).loops)
	if after.goroutines > before.goroutines+5 || after.descriptors > before.descriptors+pooled+5 || after.heap > before.heap+4<<20 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for _, o := range []Outcome{OutcomeOK, OutcomeClientReset, OutcomeEndpointReset, OutcomeDialFailed, OutcomeNoEndpoint, OutcomeHalfClosed} {
		if n, ok := outcomes.Load(o); !ok || n.(*atomic.Int64).Load() == 0 {
			t.Errorf("no connection ended with %s", o)
		}
	}
	cancel()
	run.Wait()
}
