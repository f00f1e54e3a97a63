package splicetest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/splice"
)

func leakScenarios() []scenario {
	return []scenario{{name: "NoLeak", run: noLeak, scope: alone}}
}

// noLeak: after thousands of connections of every ending, everything is back where it was.
func noLeak(t *trial) {
	const warmUp, connections = 1000, 8000
	opts := timeouts(20, 20)
	opts.Policy.HalfClose = 30 * time.Millisecond
	d := t.start(opts)
	ways := d.everyWay()
	endings := map[splice.Outcome]int{}
	d.load(ways, warmUp, endings) // pools and tables grow to their size
	before := d.usage()
	d.load(ways, connections, endings)
	after := d.usage()
	for end := time.Now().Add(longest); after.exceeds(before) && time.Now().Before(end); after = d.usage() {
		time.Sleep(50 * time.Millisecond) // servers of the scenario end a little later
	}
	t.Logf("before %+v, after %+v", before, after)
	if after.exceeds(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	wantEveryEnding(t, endings)
}

// way is one kind of connection.
type way struct {
	at     netip.AddrPort
	bytes  int
	reset  bool // by the client, once it has sent its bytes
	seldom bool // it takes long: one of four is enough
}

// everyWay opens fronts for connections of every ending.
func (d *dataPath) everyWay() []way {
	live := echoServer(d.t)
	resetting := serveTCP(d.t, loopback, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		c.SetLinger(0)
	})
	deaf := serveTCP(d.t, loopback, func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		time.Sleep(200 * time.Millisecond) // longer than a half-closed connection may be silent
	})
	echoing := d.tcp(live).at
	return []way{
		{at: echoing, bytes: 1}, {at: echoing, bytes: 1, reset: true},
		{at: echoing, bytes: 300 << 10}, {at: echoing, bytes: 300 << 10, reset: true},
		{at: d.tcp(d.t.refusing(), live).at, bytes: 1}, {at: d.tcp(resetting).at, bytes: 1},
		{at: d.tcp(d.t.refusing()).at, bytes: 1}, {at: d.tcp(silent(d.t)).at, bytes: 1, seldom: true},
		{at: d.tcp().at, bytes: 1}, {at: d.tcp(deaf).at, bytes: 1, seldom: true},
	}
}

// load makes so many connections, waits until the last has ended and counts how.
func (d *dataPath) load(ways []way, n int, endings map[splice.Outcome]int) {
	d.t.Helper()
	const clients = 50
	var wg sync.WaitGroup
	var next atomic.Int64
	for range clients {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				w := ways[i%len(ways)]
				if w.seldom && i/len(ways)%4 != 0 {
					w = ways[0]
				}
				w.connect(d.t)
			}
		})
	}
	wg.Wait()
	for range n {
		endings[d.record().Outcome]++
	}
}

// connect makes one connection and uses it up.
func (w way) connect(t *trial) {
	c, err := net.Dial("tcp", w.at.String())
	if isReset(err) {
		return // refused that early that dialling saw it
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
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

// usage is what a process holds.
type usage struct {
	goroutines  int
	descriptors int64 // but for those that the engine says it holds; 0 where the system has no list of them
	heap        uint64
}

func (d *dataPath) usage() (u usage) {
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.descriptors = int64(len(open)) - d.Stats().Descriptors
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.goroutines, u.heap = runtime.NumGoroutine(), m.HeapAlloc
	return u
}

func (u usage) exceeds(before usage) bool {
	return u.goroutines > before.goroutines+5 || u.descriptors > before.descriptors+5 || u.heap > before.heap+4<<20
}

func wantEveryEnding(t *trial, endings map[splice.Outcome]int) {
	t.Helper()
	for _, o := range []splice.Outcome{
		splice.OutcomeOK, splice.OutcomeClientReset, splice.OutcomeEndpointReset, splice.OutcomeDialFailed,
		splice.OutcomeNoEndpoint, splice.OutcomeHalfClosed,
	} {
		if endings[o] == 0 {
			t.Errorf("no connection ended with %s: %v", o, endings)
		}
	}
}
