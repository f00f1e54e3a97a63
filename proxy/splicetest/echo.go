package splicetest

import (
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func echoScenarios() []scenario {
	return []scenario{
		{name: "Echo", run: echoes},
		{name: "LargeBothWays", run: largeBothWays},
		{name: "ServerSpeaksFirst", run: serverSpeaksFirst},
		{name: "ManyConnections", run: manyConnections},
		{name: "IdleEngineAnswers", run: idleEngineAnswers},
	}
}

func echoes(t *trial) {
	t.both(func(t *trial, host string) {
		d := t.start(splice.Options{})
		f := d.open(inet.TCP, host, serveTCP(t, host, echo))
		c := dialTCP(t, f.at)
		wantEcho(t, c, "hello")
		rec := d.record()
		if rec.Outcome != record.OutcomeOK || rec.ClosedBy != record.Client || rec.CloseType != record.FIN ||
			rec.BytesFromClient != 5 || rec.BytesFromEndpoint != 5 {
			t.Errorf("record %+v", rec)
		}
		if rec.Client != addrOf(c.LocalAddr()) || rec.OriginalDst != f.at || len(rec.Attempts) != 1 {
			t.Errorf("record %+v", rec)
		}
	})
}

func largeBothWays(t *trial) {
	d := t.start(splice.Options{})
	want := stream{noiseOf(16 << 20), noiseOf(16 << 20), noiseOf(16 << 20), noiseOf(16 << 20)}
	c := dialTCP(t, d.tcp(echoServer(t)).at)
	go func() {
		for _, part := range want {
			c.Write(part)
		}
		c.CloseWrite()
	}()
	n, err := want.receive(c)
	if err != nil || n != want.size() {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	if rec := d.record(); rec.BytesFromClient != int64(n) || rec.BytesFromEndpoint != int64(n) {
		t.Errorf("record %+v", rec)
	}
}

func serverSpeaksFirst(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) { c.Write([]byte("220 hello")) }))
	wantRest(t, dialTCP(t, f.at), "220 hello")
}

// manyConnections: round robin is exact when nothing else is going on, and each connection has an id of its own.
func manyConnections(t *trial) {
	const clients, times = 8, 50
	d := t.start(timeouts(10_000)) // no dial goes elsewhere for its time
	a, b := echoServer(t), echoServer(t)
	f := d.tcp(a, b)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() { echoTimes(t, f.at, times) })
	}
	wg.Wait()
	count := map[netip.AddrPort]int{}
	ids := map[uint64]bool{}
	for range clients * times {
		rec := d.record()
		count[rec.Endpoint.Addr]++
		ids[rec.ID] = true
	}
	if count[a] != clients*times/2 || count[b] != clients*times/2 || len(ids) != clients*times {
		t.Errorf("%v, %d ids", count, len(ids))
	}
}

// echoTimes makes connections one after the other. It may run on any goroutine.
func echoTimes(t *trial, at netip.AddrPort, times int) {
	for range times {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Error(err)
			return
		}
		c.Write([]byte("x"))
		c.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "x" {
			t.Errorf("got %q, %v", got, err)
		}
		c.Close()
	}
}

// idleEngineAnswers: an engine that has nothing to do is not taken for one that hangs.
func idleEngineAnswers(t *trial) {
	d := t.start(splice.Options{})
	d.Silent()
	t.eventually("the engine answers", func() bool { return d.Silent() == 0 })
	d.stop()
	if s := d.Silent(); s != 0 {
		t.Errorf("silent for %s after its end", s)
	}
}
