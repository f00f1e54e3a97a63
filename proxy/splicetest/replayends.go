package splicetest

import (
	"io"
	"net"
	"net/netip"

	"github.com/portald/portald/proxy/record"
)

// wantResetByEndpoint expects the record of a connection that the endpoint has reset in the end.
func wantResetByEndpoint(t *trial, rec *record.Record, replays int) {
	t.Helper()
	if rec.Outcome != record.OutcomeEndpointReset || rec.ClosedBy != record.Endpoint || rec.CloseType != record.Reset ||
		rec.Replays != replays || rec.Error == "" || rec.Connect < 0 || !rec.Endpoint.Addr.IsValid() {
		t.Errorf("record %+v", rec)
	}
}

// wantOnlyReset expects a reset, and no byte before it.
func wantOnlyReset(t *trial, c *net.TCPConn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || !seenAsReset(t, err) {
		t.Errorf("client sees %d bytes, %v, want a reset", n, err)
	}
}

// replayEndsAtFirstByte: an endpoint that has sent a byte is the only one.
func replayEndsAtFirstByte(t *trial) {
	d := t.start(replaying())
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 5))
		c.Write([]byte("a"))
		io.ReadFull(c, make([]byte, 1))
		awaitReader()
		reset(c)
	}), echoServer(t))
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	wantNothingKept(d)
	c.Write([]byte("x"))
	wantOnlyReset(t, c)
	rec := d.record()
	wantResetByEndpoint(t, rec, 0)
	if len(rec.Attempts) != 1 || rec.BytesFromEndpoint != 1 {
		t.Errorf("record %+v", rec)
	}
}

// replayOfHalfClosedClient: the next endpoint gets the request and its end.
func replayOfHalfClosedClient(t *trial) {
	d := t.start(replaying())
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadAll(c)
		reset(c)
	}), serveTCP(t, loopback, func(c *net.TCPConn) {
		asked, _ := io.ReadAll(c)
		c.Write(append([]byte("answer to "), asked...))
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("question"))
	c.CloseWrite()
	wantRest(t, c, "answer to question")
	rec := d.record()
	wantReplays(t, rec, 1, len("question"), resetEarly, "")
	if rec.ClosedBy != record.Client {
		t.Errorf("record %+v", rec)
	}
}

// replayNotOfEmptyAnswer: an endpoint that ends its stream after the client's may have nothing to say.
func replayNotOfEmptyAnswer(t *trial) {
	d := t.start(replaying())
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) { io.ReadAll(c) }), echoServer(t))
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	c.CloseWrite()
	wantRest(t, c, "")
	wantReplays(t, d.record(), 0, len("hello"), "")
}

// replayNotOfSingleEndpoint: an endpoint without others that ends its stream at once is read by nobody else: it may
// take what the client sends all the same.
func replayNotOfSingleEndpoint(t *trial) {
	received := make(chan []byte, 1)
	d := t.start(replaying())
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		c.CloseWrite()
		all, _ := io.ReadAll(c)
		received <- all
	}))
	c := dialTCP(t, f.at)
	wantRest(t, c, "")
	ask := request(200_000)
	c.Write(ask)
	c.Close()
	wantRequest(t, ask, received)
	rec := d.record()
	wantReplays(t, rec, 0, len(ask), "")
	if rec.ClosedBy != record.Endpoint {
		t.Errorf("record %+v", rec)
	}
}

// replayUntilNoneIsLeft: a request is not sent more often than dials may be made, nor twice to one endpoint.
func replayUntilNoneIsLeft(t *trial) {
	for _, c := range []struct{ endpoints, replays int }{{6, 2}, {2, 1}, {1, 0}} {
		d := t.start(replaying(10_000, 10_000, 10_000))
		var all []netip.AddrPort
		for range c.endpoints {
			all = append(all, failing(t, 5, record.Reset))
		}
		client := dialTCP(t, d.tcp(all...).at)
		client.Write([]byte("hello"))
		wantOnlyReset(t, client)
		rec := d.record()
		wantResetByEndpoint(t, rec, c.replays)
		if len(rec.Attempts) != c.replays+1 || rec.BytesToEndpoint != 5 || rec.Endpoint.Addr != all[c.replays] {
			t.Errorf("record %+v", rec)
		}
		wantNothingKept(d)
	}
}

// replayThenRefused: a dial that fails in between is as any other.
func replayThenRefused(t *trial) {
	live, got := answering(t, 100)
	d := t.start(replaying())
	ask := request(100)
	wantAnswered(t, d.tcp(failing(t, 100, record.Reset), t.refusing(), live).at, ask, got)
	rec := d.record()
	if len(rec.Attempts) != 3 || !refusedIn(rec.Attempts[1]) || rec.Replays != 1 || rec.Endpoint.Addr != live ||
		rec.BytesToEndpoint != 100 {
		t.Errorf("record %+v", rec)
	}
}

// replayThenNoneAnswers: if nobody else is reached, the connection ends as its endpoint has ended it.
func replayThenNoneAnswers(t *trial) {
	d := t.start(replaying(200, 200, 200))
	c := dialTCP(t, d.tcp(failing(t, 5, record.Reset), silent(t)).at)
	c.Write([]byte("hello"))
	wantOnlyReset(t, c)
	rec := d.record()
	wantResetByEndpoint(t, rec, 1)
	if n := len(rec.Attempts); n < 2 || rec.Attempts[0].Err != resetEarly || rec.Attempts[n-1].Err != "timeout" {
		t.Errorf("attempts %+v", rec.Attempts)
	}
	wantNothingKept(d)
}
