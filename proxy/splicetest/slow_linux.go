package splicetest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/record"
)

func slowScenarios() []scenario {
	return []scenario{
		{name: "SlowDialOvertakesItsHedge", run: slowDialOvertakesItsHedge},
		{name: "SlowDialOvertakesAQuestion", run: slowDialOvertakesAQuestion},
		{name: "BothDialsAnswered", run: bothDialsAnswered},
	}
}

// slow is an address that answers from when it is told to: the kernel drops what comes to a listener whose queue is
// full, and takes the SYN that is sent again after a second.
func slow(t *trial, handle func(*net.TCPConn)) (at netip.AddrPort, answer func()) {
	t.Helper()
	fd, at := fullListener(t)
	file := os.NewFile(uintptr(fd), "")
	t.Cleanup(func() { file.Close() })
	return at, func() {
		ln, err := net.FileListener(file)
		t.must(err)
		t.Cleanup(func() { ln.Close() })
		go accept(ln, handle)
	}
}

// slowDialOvertakesItsHedge: the dial that came first may still be the first to be answered.
func slowDialOvertakesItsHedge(t *trial) {
	d := t.start(hedging(50*time.Millisecond, 20_000, 20_000))
	first, answer := slow(t, echo)
	endpoints := []netip.AddrPort{first, silent(t)}
	f := d.tcp(endpoints...)
	free := d.Stats().Descriptors
	c := dialUnderway(d, f)
	answer()
	wantEcho(t, c, "hello")
	rec := d.record()
	wantDials(t, rec, endpoints, "b hedge overtaken, a")
	if rec.Endpoint.Addr != first || rec.Proxy() != rec.Attempts[1].Proxy {
		t.Errorf("record %+v", rec)
	}
	t.eventually("all descriptors are given back", func() bool { return d.Stats().Descriptors == free })
	d.stop()
	wantLeases(t, f, endedWell, wasOvertaken)
}

// slowDialOvertakesAQuestion: also while the host is still asked about the endpoint of the other.
func slowDialOvertakesAQuestion(t *trial) {
	o := hedging(50*time.Millisecond, 20_000, 20_000)
	let := askedOfTheSecond(&o)
	d := t.start(o)
	first, answer := slow(t, echo)
	endpoints := []netip.AddrPort{first, echoServer(t)}
	f := d.tcp(endpoints...)
	c := dialUnderway(d, f)
	answer()
	exchange(t, c)
	close(let)
	exchange(t, c)
	wantEcho(t, c, "hello")
	wantDials(t, d.record(), endpoints, "b hedge overtaken, a")
	d.stop()
	wantLeases(t, f, endedWell, wasOvertaken)
}

// bothDialsAnswered: an endpoint that is connected, and was not the first, sees a connection that is closed without a
// byte. Of some connections whose two SYN are sent again at one time that is so of one at least.
func bothDialsAnswered(t *trial) {
	const tries = 3
	var unused atomic.Int64
	server := func(c *net.TCPConn) {
		data, err := io.ReadAll(c)
		if len(data) == 0 && err == nil {
			unused.Add(1)
		}
		c.Write(data)
	}
	d := t.start(hedging(1, 20_000, 20_000)) // at once
	var clients []*net.TCPConn
	var answers []func()
	for range tries {
		a, answerA := slow(t, server)
		b, answerB := slow(t, server)
		clients = append(clients, dialTCP(t, d.tcp(a, b).at))
		answers = append(answers, answerA, answerB)
	}
	t.eventually("all dials are under way", func() bool {
		all := d.Snapshot()
		return len(all) == tries && !slices.ContainsFunc(all, func(l record.Live) bool { return l.Attempts < 2 })
	})
	for _, answer := range answers {
		answer()
	}
	for _, c := range clients {
		wantEcho(t, c, "hello")
		rec := d.record()
		if a := rec.Attempts; len(a) != 2 || a[0].Err != record.Overtaken || a[1].Err != "" {
			t.Errorf("record %+v", rec)
		}
	}
	t.eventually("one was closed unused", func() bool { return unused.Load() > 0 })
}
