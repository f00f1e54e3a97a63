package splicetest

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

func leakScenarios() []scenario {
	return []scenario{{name: "NoLeak", run: noLeak, scope: alone}}
}

// noLeak: after thousands of connections of every ending, everything is back where it was.
func noLeak(t *trial) {
	const warmUp, connections = 1000, 10_000
	opts := timeouts(20, 20)
	opts.Policy.HalfClose = 30 * time.Millisecond
	d := t.start(opts)
	ways := everyWay(d)
	endings := map[record.Outcome]int{}
	loadBy(d, ways, warmUp, endings) // pools and tables grow to their size
	before := usageOf(d)
	loadBy(d, ways, connections, endings)
	after := usageOf(d)
	for end := time.Now().Add(longest); after.exceeds(before) && time.Now().Before(end); after = usageOf(d) {
		time.Sleep(50 * time.Millisecond) // servers of the scenario end a little later
	}
	t.Logf("before %+v, after %+v", before, after)
	if after.exceeds(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	wantEveryEnding(t, endings, warmUp+connections)
}

// way is one kind of connection.
type way struct {
	at     netip.AddrPort
	bytes  int
	reset  bool // by the client, once it has sent its bytes, and had one back if it is one
	seldom bool // it takes long: one of four is enough
}

// everyWay opens fronts for connections of every ending.
func everyWay(d *dataPath) []way {
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
	hedged := d.tcp(silent(d.t), live)
	hedged.under(hedging(time.Millisecond, 20, 20).Policy)
	all := d.tcp(silent(d.t), resetting, d.t.refusing(), live)
	all.under(together(1000))
	waits := d.tcp(d.t.refusing())
	waits.under(service.Policy{WaitForEndpoint: 30 * time.Millisecond})
	return []way{
		{at: all.at, bytes: 1}, {at: all.at, bytes: 30 << 10, reset: true}, {at: waits.at, bytes: 1, seldom: true},
		{at: echoing, bytes: 1}, {at: echoing, bytes: 1, reset: true},
		{at: echoing, bytes: 300 << 10}, {at: echoing, bytes: 300 << 10, reset: true},
		{at: d.tcp(d.t.refusing(), live).at, bytes: 1}, {at: d.tcp(resetting).at, bytes: 1},
		{at: d.tcp(d.t.refusing()).at, bytes: 1}, {at: d.tcp(silent(d.t)).at, bytes: 1, seldom: true},
		{at: d.tcp().at, bytes: 1}, {at: hedged.at, bytes: 1}, {at: d.tcp(deaf).at, bytes: 1, seldom: true},
		{at: serveReplayed(d, resetting, live).at, bytes: 1}, {at: serveReplayed(d, resetting, deaf).at, bytes: 30 << 10},
	}
}

// serveReplayed opens a front that sends again what an endpoint did not answer.
func serveReplayed(d *dataPath, endpoints ...netip.AddrPort) *front {
	d.t.Helper()
	f := d.tcp(endpoints...)
	f.under(service.Policy{RetryOn: service.RetryConnect | service.RetryReset})
	return f
}

// loadBy makes so many connections, waits until the last has ended and counts how.
func loadBy(d *dataPath, ways []way, n int, endings map[record.Outcome]int) {
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
	d.t.eventually("all have ended", func() bool { return d.Stats().Connections == 0 })
	for counted := len(d.records); counted > 0; counted-- {
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
		if w.bytes == 1 {
			c.Read(make([]byte, 1))
		}
		return
	}
	go func() {
		c.Write(make([]byte, w.bytes))
		c.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(io.Discard, c)
}

// usage counts what a process has open, and its memory.
type usage struct {
	goroutines  int
	descriptors int64 // or handles, without the ones that the engine has in its account
	heap        uint64
}

func usageOf(d *dataPath) (u usage) {
	u.descriptors = openDescriptors(d.t) - d.Stats().Descriptors
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

// wantEveryEnding expects all connections to be recorded, but for those that Windows does not accept any more, since
// their clients have reset them by then.
func wantEveryEnding(t *trial, endings map[record.Outcome]int, connections int) {
	t.Helper()
	recorded := 0
	for _, n := range endings {
		recorded += n
	}
	if recorded < connections && (runtime.GOOS != "windows" || recorded < connections*8/10) {
		t.Errorf("%d records of %d connections: %v", recorded, connections, endings)
	}
	for _, o := range []record.Outcome{
		record.OutcomeOK, record.OutcomeClientReset, record.OutcomeEndpointReset, record.OutcomeDialFailed,
		record.OutcomeNoEndpoint, record.OutcomeHalfClosed,
	} {
		if endings[o] == 0 {
			t.Errorf("no connection ended with %s: %v", o, endings)
		}
	}
}
