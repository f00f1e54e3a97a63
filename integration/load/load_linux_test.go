package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// serveHere runs a server on loopback until the test ends.
func serveHere(t *testing.T) netip.AddrPort { return runHere(t, Serve) }

func runHere(t *testing.T, run func(context.Context, netip.AddrPort) error) netip.AddrPort {
	t.Helper()
	at := freePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(ctx, at); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	for end := time.Now().Add(longest); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", at.String())
		if err == nil {
			c.Close()
			return at
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// longest is how long a test waits for what has to come, on a machine that does more.
const longest = time.Minute

func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

func TestExchanges(t *testing.T) {
	at := serveHere(t)
	for _, proto := range []string{"tcp", "udp"} {
		start := time.Now()
		r, err := RR{Proto: proto, To: at, Conns: 8, For: 100 * time.Millisecond}.Run(t.Context())
		if err != nil {
			t.Fatal(proto, err)
		}
		if r.Exchanges < 100 || r.Failed > 0 || r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%s rr: %+v", proto, r)
		}
		if took := time.Since(start); took > longest {
			t.Errorf("%s rr took %v, want 100 ms", proto, took)
		}
	}
}

func TestNewConnections(t *testing.T) {
	at := serveHere(t)
	from := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	for _, c := range []Churn{
		{Proto: "tcp", To: []netip.AddrPort{at}},
		{Proto: "udp", To: []netip.AddrPort{at}},
		{Proto: "udp", To: []netip.AddrPort{at}, From: from, At: ports - 20}, // runs into the second address
	} {
		c.Conns, c.For = 4, time.Second
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(c.Proto, err)
		}
		if r.Exchanges < 100 || r.Failed > 0 {
			t.Errorf("%s churn: %+v", c.Proto, r)
		}
	}
}

func TestBulkIsCountedWhereItArrives(t *testing.T) {
	at := runHere(t, Sink)
	for _, c := range []Bulk{{Streams: 1}, {Streams: 8}, {Streams: 8, Apart: true}} {
		c.To, c.For = at, 100*time.Millisecond
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes < 1<<20 || r.Elapsed < c.For || r.Elapsed > longest {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 12345)); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, []byte{6: 12345 >> 8, 7: 12345 & 0xff}) {
		t.Errorf("the sink counts %v, %v", got, err)
	}
}

// With nobody there, failures are counted and neither stop the run nor pass for exchanges.
func TestRefusedIsCounted(t *testing.T) {
	nobody := netip.MustParseAddrPort("127.0.0.1:1") // not one that a client socket may get, and so dial itself
	for _, proto := range []string{"tcp", "udp"} {
		r, err := Churn{Proto: proto, To: []netip.AddrPort{nobody}, Conns: 2, For: 50 * time.Millisecond}.Run(t.Context())
		if err != nil {
			t.Fatal(proto, err)
		}
		if r.Exchanges != 0 || r.Failed == 0 {
			t.Errorf("%s: %+v", proto, r)
		}
	}
	if _, err := (RR{Proto: "tcp", To: nobody, Conns: 1, For: time.Second}).Run(t.Context()); err == nil {
		t.Error("rr with nobody: no error")
	}
}

func TestLostDatagramsAreSentAgain(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := RR{Proto: "udp", To: netip.MustParseAddrPort(l.LocalAddr().String()), Conns: 2,
		For: 700 * time.Millisecond}.Run(t.Context())
	if err != nil || r.Exchanges != 0 || r.Failed < 2 {
		t.Errorf("silent server: %+v, %v", r, err)
	}
}

func TestCommandWritesItsResult(t *testing.T) {
	at := serveHere(t)
	var out bytes.Buffer
	err := Command(t.Context(), []string{"churn", "-proto", "udp", "-to", at.String(), "-from", "127.0.0.4,127.0.0.5",
		"-for", "20ms"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Exchanges == 0 {
		t.Errorf("result %q: %+v, %v", out.String(), r, err)
	}
	for _, bad := range [][]string{nil, {"x"}, {"churn"}, {"rr", "-proto", "sctp", "-to", at.String()}} {
		if Command(t.Context(), bad, &out) == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestQuantilesAreRightToThreePercent(t *testing.T) {
	var h histogram
	var all []time.Duration
	for d := time.Duration(1); d < time.Second; d += d/50 + 1 {
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999} {
		want := all[int(q*float64(len(all)))]
		if got := h.quantile(q); got > want || float64(got) < 0.96*float64(want) {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("quantile of none: %v", got)
	}
}

// What a source sends is counted where it arrives, and with Up also what goes the other way.
func TestDownloads(t *testing.T) {
	at := runHere(t, Source)
	for _, c := range []Downloads{{Streams: 1}, {Streams: 8}, {Streams: 2, Up: true}} {
		c.To, c.For = at, 100*time.Millisecond
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes < 1<<20 || r.Elapsed < c.For || r.Elapsed > longest || (r.Up >= 1<<20) != c.Up {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// What is sent by single calls, and what the kernel cuts, is counted as so many datagrams.
func TestDatagrams(t *testing.T) {
	at := runHere(t, Sink)
	for _, c := range []Datagrams{{GSO: true, Rate: 10_000}, {Rate: 10_000}} {
		c.To, c.For = at, 200*time.Millisecond
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Sent < datagramsACall || r.Arrived < r.Sent*9/10 || r.Arrived > r.Sent || r.Elapsed < c.For {
			t.Errorf("GSO %t: %+v", c.GSO, r)
		}
	}
}
