package splicetest

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// replayLinuxScenarios need a system that keeps bytes that came before a reset, or more than TCP.
func replayLinuxScenarios() []scenario {
	return []scenario{
		{name: "ReplayNotOfUnreadAnswer", run: replayNotOfUnreadAnswer},
		{name: "ReplayNotOfUrgentData", run: replayNotOfUrgentData, needs: UrgentData},
		{name: "ReplayKeptHere", run: replayKeptHere, needs: Handover},
		{name: "ReplayNotBySuccessor", run: replayNotBySuccessor, needs: Handover},
		{name: "ReplayHandedOver", run: replayHandedOver, needs: Handover},
	}
}

// replayNotOfUnreadAnswer: a byte of the endpoint that came right before its reset is an answer, though a send to the
// endpoint may fail first.
func replayNotOfUnreadAnswer(t *trial) {
	const connections = 50
	var others atomic.Int64
	d := t.start(replaying())
	bad := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 5))
		c.Write([]byte("a"))
		reset(c)
	})
	good := serveTCP(t, loopback, func(*net.TCPConn) { others.Add(1) })
	f := d.tcp(bad, good)
	for range connections {
		f.ring.restart()
		c := dialTCP(t, f.at)
		for _, err := c.Write([]byte("hello")); err == nil; _, err = c.Write([]byte("more")) {
			time.Sleep(50 * time.Microsecond)
		}
		if rec := d.record(); rec.Replays != 0 || rec.Endpoint.Addr != bad {
			t.Errorf("record %+v", rec)
		}
		c.Close()
	}
	if n := others.Load(); n > 0 {
		t.Errorf("%d of %d went on to another endpoint", n, connections)
	}
	wantNothingKept(d)
}

// replayNotOfUrgentData: urgent bytes are sent once.
func replayNotOfUrgentData(t *trial) {
	d := t.start(replaying())
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		inline(c)
		io.ReadFull(c, make([]byte, 8))
		awaitReader()
		reset(c)
	}), echoServer(t))
	c := dialTCP(t, f.at)
	c.Write([]byte("hello"))
	awaitReader()
	sendUrgent(c, '!')
	c.Write([]byte("ok"))
	wantOnlyReset(t, c)
	wantResetByEndpoint(t, d.record(), 0)
	wantNothingKept(d)
}

// failsLater is an endpoint that reads so much, and resets once it is told to.
func failsLater(t *trial, n int) (f func(*net.TCPConn), fail func()) {
	release := make(chan struct{})
	return func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, n))
		<-release
		reset(c)
	}, func() { close(release) }
}

// replayKeptHere: a connection that no successor took may go to another endpoint still.
func replayKeptHere(t *trial) {
	serve, fail := failsLater(t, 700)
	live, got := answering(t, 700)
	s := t.succeeds(replaying(), inet.TCP, serveTCP(t, loopback, serve), live)
	ask := request(700)
	c := dialTCP(t, s.front.at)
	c.Write(ask)
	t.eventually("it was sent", func() bool { return liveOf(s.old).BytesToEndpoint == 700 })
	s.kept(func(all []*splice.Departure) {
		if len(all) != 1 {
			t.Errorf("%d connections depart", len(all))
		}
	})
	fail()
	io.ReadFull(c, make([]byte, len("answer")))
	c.CloseWrite()
	wantRest(t, c, "")
	wantRequest(t, ask, got)
	wantReplays(t, s.old.record(), 1, 700, resetEarly, "")
	s.givenBack()
}

// replayNotBySuccessor: what was kept stays behind, and is given back there; the connection ends with its endpoint.
func replayNotBySuccessor(t *trial) {
	serve, fail := failsLater(t, 700)
	s := t.succeeds(replaying(), inet.TCP, serveTCP(t, loopback, serve), echoServer(t))
	c := dialTCP(t, s.front.at)
	c.Write(request(700))
	t.eventually("it was sent", func() bool { return liveOf(s.old).BytesToEndpoint == 700 })
	if n := s.old.Stats().ReplayBytes; n < 700 {
		t.Errorf("%d bytes are kept", n)
	}
	if left := s.taken(noChange); left > 0 {
		t.Fatalf("%d connections are left", left)
	}
	if n := s.old.Stats().ReplayBytes; n != 0 {
		t.Errorf("%d bytes are kept by the predecessor", n)
	}
	fail()
	wantOnlyReset(t, c)
	rec := s.next.record()
	wantResetByEndpoint(t, rec, 0)
	if rec.BytesToEndpoint != 700 || len(rec.Attempts) != 1 {
		t.Errorf("record %+v", rec)
	}
	s.givenBack()
}

// replayHandedOver: a connection that went to another endpoint is handed over as any other, and its record knows.
func replayHandedOver(t *trial) {
	at, accepted := wires(t)
	s := t.succeeds(replaying(), inet.TCP, failing(t, 5, record.Reset), at)
	w := &wire{t: t, client: dialTCP(t, s.front.at)}
	w.client.Write([]byte("hello"))
	w.endpoint = <-accepted
	w.endpoint.SetDeadline(time.Now().Add(longest))
	w.up = stream{[]byte("hello")}
	t.eventually("the replay has ended", func() bool { // the kernel accepts for an endpoint before that
		live := liveOf(s.old)
		return live.State == record.StateOpen && live.Attempts == 2 && live.BytesToEndpoint == 5
	})
	if left := s.taken(noChange); left > 0 {
		t.Fatalf("%d connections are left", left)
	}
	w.send(w.client, 300_000, false)
	w.send(w.endpoint, 300_000, false)
	w.ends()
	rec := s.next.record()
	if rec.Replays != 1 || len(rec.Attempts) != 2 || rec.Attempts[0].Err != resetEarly || rec.Endpoint.Addr != at ||
		rec.BytesToEndpoint != 300_005 || rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	s.givenBack()
}
