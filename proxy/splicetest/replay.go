package splicetest

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func replayScenarios() []scenario {
	return []scenario{
		{name: "ReplayAfterReset", run: replayAfterReset},
		{name: "ReplayOfNothing", run: replayOfNothing},
		{name: "ReplayAfterEarlyEnd", run: replayAfterEarlyEnd},
		{name: "ReplayOnlyIfSet", run: replayOnlyIfSet},
		{name: "ReplayUpToItsLimit", run: replayUpToItsLimit},
		{name: "ReplayEndsAtFirstByte", run: replayEndsAtFirstByte},
		{name: "ReplayOfHalfClosedClient", run: replayOfHalfClosedClient},
		{name: "ReplayNotOfEmptyAnswer", run: replayNotOfEmptyAnswer},
		{name: "ReplayNotOfSingleEndpoint", run: replayNotOfSingleEndpoint},
		{name: "ReplayUntilNoneIsLeft", run: replayUntilNoneIsLeft},
		{name: "ReplayThenRefused", run: replayThenRefused},
		{name: "ReplayThenNoneAnswers", run: replayThenNoneAnswers},
		{name: "ReplayWithSlowDial", run: replayWithSlowDial},
		{name: "ReplayOfProxyV2", run: replayOfProxyV2},
		{name: "ReplayOfWhatWaits", run: replayOfWhatWaits},
		{name: "ReplayWhileClientSends", run: replayWhileClientSends},
		{name: "ReplayMemoryIsShared", run: replayMemoryIsShared},
		{name: "ReplayClientLeaves", run: replayClientLeaves},
		{name: "ReplayLeavesRemoved", run: replayLeavesRemoved},
		{name: "ReplayWaits", run: replayWaits},
		{name: "ReplayWaitTimesOut", run: replayWaitTimesOut},
		{name: "ReplayWaitingClientLeaves", run: replayWaitingClientLeaves},
	}
}

// The errors of attempts that were repeated.
const resetEarly, closedEarly = "reset before a response", "closed before a response"

// mostReplayed bounds the bytes of a client that are sent again.
const mostReplayed = 64 << 10

// replaying is a policy under which what was sent is sent again, with these timeouts of dials.
func replaying(ms ...time.Duration) splice.Options {
	if ms == nil {
		ms = []time.Duration{10_000, 10_000, 10_000, 10_000}
	}
	o := timeouts(ms...)
	o.Policy.RetryOn = service.RetryConnect | service.RetryReset
	return o
}

// failing is an endpoint that reads so much and then fails: by a reset, or by the end of its stream.
func failing(t *trial, n int, how record.CloseType) netip.AddrPort {
	inTime := resetsMayBeEnds(t)
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, n)); err == nil && how == record.Reset {
			if inTime {
				awaitReader()
			}
			reset(c)
		}
	})
}

// answering is an endpoint that reads so much, says what it was, and answers.
func answering(t *trial, n int) (netip.AddrPort, <-chan []byte) {
	got := make(chan []byte, 100)
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		asked := make([]byte, n)
		io.ReadFull(c, asked)
		c.Write([]byte("answer"))
		rest, _ := io.ReadAll(c)
		got <- append(asked, rest...)
	}), got
}

// request is something to ask that no other request is like.
func request(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// wantReplays expects a connection that went well after these attempts, an empty error for the last.
func wantReplays(t *trial, rec *record.Record, replays int, sent int, errors ...string) {
	t.Helper()
	var got []string
	for _, a := range rec.Attempts {
		if isEarlyRefusal(a.Err) {
			a.Err = resetEarly
		}
		got = append(got, a.Err)
	}
	if !slices.Equal(got, errors) || rec.Replays != replays || rec.Outcome != record.OutcomeOK ||
		rec.BytesFromClient != int64(sent) || rec.BytesToEndpoint != int64(sent) || rec.Error != "" {
		t.Errorf("attempts %q, record %+v", got, rec)
	}
}

// isEarlyRefusal tells whether a reset came that early that it is one of the dial.
func isEarlyRefusal(why string) bool { return why == "connection reset by peer" }

// wantAnswered asks without an end, expects the answer and that the endpoint got the request once, and ends.
func wantAnswered(t *trial, at netip.AddrPort, ask []byte, got <-chan []byte) {
	t.Helper()
	c := dialTCP(t, at)
	c.Write(ask)
	answer := make([]byte, len("answer"))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "answer" {
		t.Fatalf("got %q, %v", answer, err)
	}
	c.CloseWrite()
	wantRest(t, c, "")
	wantRequest(t, ask, got)
}

func wantRequest(t *trial, ask []byte, got <-chan []byte) {
	t.Helper()
	if b := <-got; !bytes.Equal(b, ask) {
		t.Fatalf("the endpoint got %d bytes of %d, or others", len(b), len(ask))
	}
}

// wantNothingKept expects that all that was kept is given back.
func wantNothingKept(d *dataPath) {
	d.t.Helper()
	d.t.eventually("nothing is kept", func() bool { s := d.Stats(); return s.ReplayBytes == 0 && s.Buffers == 0 })
}

// replayAfterReset: an endpoint that resets after it has read the request is followed by another, which gets all of it.
// Once that has answered nothing is kept, and the first has broken the connection.
func replayAfterReset(t *trial) {
	for _, n := range []int{1, 700, 40_000} {
		live, got := answering(t, n)
		d := t.start(replaying())
		f := d.tcp(failing(t, n, record.Reset), live)
		wantAnswered(t, f.at, request(n), got)
		rec := d.record()
		wantReplays(t, rec, 1, n, resetEarly, "")
		if rec.Endpoint.Addr != live || rec.Proxy() != rec.Attempts[1].Proxy || rec.FirstByte < rec.Connect {
			t.Errorf("record %+v", rec)
		}
		wantNothingKept(d)
		d.stop()
		wantLeases(t, f, endedBadly, endedWell)
	}
}

// replayOfNothing: an endpoint that resets before the client has sent anything.
func replayOfNothing(t *trial) {
	d := t.start(replaying())
	f := d.tcp(failing(t, 0, record.Reset), serveTCP(t, loopback, func(c *net.TCPConn) { c.Write([]byte("220 hello")) }))
	c := dialTCP(t, f.at)
	wantRest(t, c, "220 hello")
	c.Close()
	rec := d.record()
	wantReplays(t, rec, rec.Replays, 0, resetEarly, "")
	if early := isEarlyRefusal(rec.Attempts[0].Err); early == (rec.Replays == 1) {
		t.Errorf("record %+v", rec)
	}
}

// replayAfterEarlyEnd: an endpoint that ends its stream without a byte, though the client goes on.
func replayAfterEarlyEnd(t *trial) {
	for _, n := range []int{0, 100} {
		live, got := answering(t, n)
		d := t.start(replaying())
		f := d.tcp(failing(t, n, record.FIN), live)
		wantAnswered(t, f.at, request(n), got)
		wantReplays(t, d.record(), 1, n, closedEarly, "")
		wantNothingKept(d)
	}
}

// replayOnlyIfSet: without the setting, or without retries, a connection ends with its endpoint.
func replayOnlyIfSet(t *trial) {
	for name, o := range map[string]splice.Options{
		"not set": timeouts(10_000, 10_000), "no retries": replaying(10_000),
		"connect": {Policy: service.Policy{RetryOn: service.RetryConnect}},
	} {
		t.sub(name, func(t *trial) {
			d := t.start(o)
			f := d.tcp(failing(t, 5, record.Reset), echoServer(t))
			c := dialTCP(t, f.at)
			c.Write([]byte("hello"))
			wantOnlyReset(t, c)
			wantResetByEndpoint(t, d.record(), 0)
		})
	}
}

// replayUpToItsLimit: so much is sent again, and not a byte more.
func replayUpToItsLimit(t *trial) {
	d := t.start(replaying())
	live, got := answering(t, mostReplayed)
	wantAnswered(t, d.tcp(failing(t, mostReplayed, record.Reset), live).at, request(mostReplayed), got)
	wantReplays(t, d.record(), 1, mostReplayed, resetEarly, "")
	c := dialTCP(t, d.tcp(failing(t, mostReplayed+1, record.Reset), live).at)
	c.Write(request(mostReplayed + 1))
	wantOnlyReset(t, c)
	wantResetByEndpoint(t, d.record(), 0)
	wantNothingKept(d)
}

// replayWithSlowDial: what the client sends while the next endpoint is dialled comes after what it sent before.
func replayWithSlowDial(t *trial) {
	live, got := answering(t, 300)
	d := t.start(replaying(10_000, 300, 10_000))
	f := d.tcp(failing(t, 100, record.Reset), silent(t), live)
	ask := request(300)
	c := dialTCP(t, f.at)
	c.Write(ask[:100])
	t.eventually("the second is dialled", func() bool { return len(f.ring.given()) == 2 })
	c.Write(ask[100:200])
	time.Sleep(100 * time.Millisecond)
	c.Write(ask[200:])
	io.ReadFull(c, make([]byte, len("answer")))
	c.CloseWrite()
	wantRest(t, c, "")
	wantRequest(t, ask, got)
	wantReplays(t, d.record(), 1, 300, resetEarly, "timeout", "")
}

// replayOfProxyV2: each endpoint gets the header first.
func replayOfProxyV2(t *trial) {
	o := replaying()
	o.Policy.ClientAddress = service.AddressProxyV2
	const header = 28
	for _, n := range []int{0, 5} {
		live, got := answering(t, header+n)
		d := t.start(o)
		f := d.tcp(failing(t, header+n, record.Reset), failing(t, header+n, record.FIN), live)
		ask := request(n)
		c := dialTCP(t, f.at)
		c.Write(ask)
		io.ReadFull(c, make([]byte, len("answer")))
		c.CloseWrite()
		wantRest(t, c, "")
		wantRequest(t, append([]byte(headerOf(addrOf(c.LocalAddr()), f.at)), ask...), got)
		wantReplays(t, d.record(), 2, n, resetEarly, closedEarly, "")
	}
}

// replayOfWhatWaits: the endpoint has not taken all by the time that it fails.
func replayOfWhatWaits(t *trial) {
	release := make(chan struct{})
	live, got := answering(t, mostReplayed)
	d := t.start(replaying())
	deaf := serveTCP(t, loopback, func(c *net.TCPConn) {
		c.SetReadBuffer(4 << 10)
		<-release
		awaitReader()
		reset(c)
	})
	c := dialTCP(t, d.tcp(deaf, live).at)
	ask := request(mostReplayed)
	c.Write(ask)
	t.eventually("all is read", func() bool {
		all := d.Snapshot()
		return len(all) == 1 && all[0].BytesFromClient == mostReplayed
	})
	close(release)
	io.ReadFull(c, make([]byte, len("answer")))
	c.CloseWrite()
	wantRest(t, c, "")
	wantRequest(t, ask, got)
	wantReplays(t, d.record(), 1, mostReplayed, resetEarly, "")
}

// replayWhileClientSends: endpoints fail at any place of what clients send, and no byte of it is lost or comes twice.
func replayWhileClientSends(t *trial) {
	const clients, times, most = 6, 12, 60_000
	o := replaying(10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000)
	d := t.start(o)
	var all []netip.AddrPort
	for i, n := range []int{1, 900, 5000, 17_000, 33_000} {
		how := record.Reset
		if i%2 == 1 {
			how = record.FIN // or a reset, if more has come
		}
		all = append(all, failing(t, n, how))
	}
	f := d.tcp(append(all, echoAtEnd(t))...)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range times {
				n := most - (i*times+j)*311
				sendInPieces(t, f.at, request(n), 2000+(i*7919+j*104_729)%9000)
			}
		})
	}
	wg.Wait()
	replays, unanswered := 0, 0
	mostUnanswered := clients * times / 5
	if resetsMayBeEnds(t) {
		mostUnanswered = clients * times / 2
	}
	for range clients * times {
		rec := d.record()
		replays += rec.Replays
		if rec.BytesToClient == 0 { // the end of an endpoint's stream came right after the client's
			unanswered++
		}
	}
	if replays < clients*times || unanswered > mostUnanswered {
		t.Errorf("%d replays of %d connections, %d had no answer", replays, clients*times, unanswered)
	}
	wantNothingKept(d)
}

// echoAtEnd is an endpoint that answers with a request once it has all of it.
func echoAtEnd(t *trial) netip.AddrPort {
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		c.Write(all)
	})
}

// sendInPieces expects a request back. The last piece comes with the end. It may run on any goroutine.
func sendInPieces(t *trial, at netip.AddrPort, ask []byte, piece int) {
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
	for rest := ask; len(rest) > 0; {
		n := min(piece, len(rest))
		c.Write(rest[:n])
		rest = rest[n:]
		time.Sleep(200 * time.Microsecond)
	}
	c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, ask) && len(got) > 0 {
		t.Errorf("got %d bytes of %d, or others: %v", len(got), len(ask), err)
	}
}

// replayMemoryIsShared: many clients that send much take no more memory than there is for it. The others are carried
// all the same, and end with their endpoint.
func replayMemoryIsShared(t *trial) {
	const clients, each, buffers = 40, 20_000, 8
	o := replaying()
	o.Account = quota.NewAccount(quota.Budget{Buffers: buffers})
	d := t.start(o)
	most := d.Stats().Limits.ReplayBytes
	if most <= 0 || most > buffers*mostReplayed {
		t.Fatalf("up to %d bytes are kept", most)
	}
	release := make(chan struct{})
	bad := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, each))
		<-release
		reset(c)
	})
	live := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, each))
		c.Write([]byte("answer"))
	})
	f := d.tcp(bad)
	ask := request(each)
	var clientsEnd sync.WaitGroup
	defer clientsEnd.Wait()
	for range clients {
		c := dialTCP(t, f.at)
		c.Write(ask)
		clientsEnd.Go(func() {
			io.ReadAll(c)
			c.Close()
		})
	}
	t.eventually("all have sent", func() bool {
		n := int64(0)
		for l := range d.All() {
			n += l.BytesFromClient
		}
		return n == clients*each
	})
	if kept := d.Stats().ReplayBytes; kept < each || kept > most {
		t.Errorf("%d bytes are kept, of at most %d", kept, most)
	}
	f.lead(bad, live)
	close(release)
	replays, resets := 0, 0
	for range clients {
		switch rec := d.record(); {
		case rec.Replays == 1 && rec.Outcome == record.OutcomeOK && rec.BytesToEndpoint == each:
			replays++
		case rec.Replays == 0 && rec.Outcome == record.OutcomeEndpointReset:
			resets++
		default:
			t.Errorf("record %+v", rec)
		}
	}
	if replays == 0 || resets == 0 {
		t.Errorf("%d went on, %d ended", replays, resets)
	}
	wantNothingKept(d)
}

// replayClientLeaves: a client that resets while the next endpoint is dialled ends the connection.
func replayClientLeaves(t *trial) {
	d := t.start(replaying(10_000, 20_000))
	f := d.tcp(failing(t, 5, record.Reset), silent(t))
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	t.eventually("the second is dialled", func() bool { return len(f.ring.given()) == 2 })
	awaitReader()
	reset(c)
	rec := d.record()
	if rec.Outcome != record.OutcomeClientReset || rec.Replays != 1 || rec.Attempts[1].Err != "given up" {
		t.Errorf("record %+v", rec)
	}
	wantNothingKept(d)
}

// replayLeavesRemoved: what becomes of connections of an endpoint that was removed does not concern one that has left.
func replayLeavesRemoved(t *trial) {
	o := replaying()
	o.Policy.Removed = service.RemovedEndpoint{Do: service.ResetConnections, After: longest}
	release := make(chan struct{})
	bad := serveTCP(t, loopback, func(c *net.TCPConn) {
		<-release
		reset(c)
	})
	answers := make(chan struct{})
	live := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, len("hello")))
		<-answers
		c.Write([]byte("answer"))
	})
	d := t.start(o)
	f := d.tcp(bad)
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	t.eventually("it is open", func() bool {
		all := d.Snapshot()
		return len(all) == 1 && all[0].State == record.StateOpen
	})
	f.lead(live)
	t.eventually("its endpoint is removed", func() bool { return d.Snapshot()[0].Removed })
	close(release)
	t.eventually("another endpoint has it, which is there", func() bool {
		l := d.Snapshot()[0]
		return l.Endpoint.Addr == live && !l.Removed
	})
	close(answers)
	io.ReadFull(c, make([]byte, len("answer")))
	c.CloseWrite()
	wantRest(t, c, "")
	if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.Replays != 1 {
		t.Errorf("record %+v", rec)
	}
}
