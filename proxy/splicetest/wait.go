package splicetest

import (
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/portald/portald/proxy/record"
)

func waitScenarios() []scenario {
	return []scenario{
		{name: "EndpointStartsAgain", run: endpointStartsAgain},
		{name: "EndpointReplacesRefusing", run: endpointReplacesRefusing},
		{name: "ClientLeavesBetweenDials", run: clientLeavesBetweenDials},
		{name: "ClientLeavesDuringDial", run: clientLeavesDuringDial},
	}
}

// endpointStartsAgain: a client that came while the only endpoint was down waits for it, and sees no error.
func endpointStartsAgain(t *trial) {
	at := t.refusing()
	d := t.start(timeouts(2000, 8000))
	f := d.tcp(at)
	c := dialTCP(t, f.at)
	t.eventually("the endpoint has refused three times", func() bool { return f.ring.rounds() >= 3 })
	echoLater(t, at, 0)
	wantEcho(t, c, "x")
	rec := d.record()
	if rec.Outcome != record.OutcomeOK || len(rec.Attempts) != 2 || rec.Attempts[0].Times < 3 ||
		rec.Attempts[1].Times != 1 || rec.Endpoint.Addr != at {
		t.Errorf("record %+v", rec)
	}
}

// echoLater serves at an address from some time on.
func echoLater(t *trial, at netip.AddrPort, after time.Duration) {
	timer := time.AfterFunc(after, func() {
		ln, err := net.Listen("tcp", at.String())
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { ln.Close() })
		go accept(ln, echo)
	})
	t.Cleanup(func() { timer.Stop() })
}

// endpointReplacesRefusing: an endpoint that comes in place of those that refuse is dialled at once, for all that wait.
// The machine may be busy for once, but not each time.
func endpointReplacesRefusing(t *trial) {
	const atOnce, times = 200 * time.Millisecond, 3 // the pauses are some 400 ms by then
	for range times {
		slowest := replaceRefusing(t)
		if slowest < atOnce {
			return
		}
		t.Logf("the last was reached %s after the change", slowest)
	}
	t.Errorf("none of %d changes reached all that waited within %s", times, atOnce)
}

// replaceRefusing returns how long after the change the last of several clients was connected.
func replaceRefusing(t *trial) (slowest time.Duration) {
	const clients = 8
	live := echoServer(t)
	d := t.start(timeouts(10_000, 20_000))
	f := d.tcp(t.refusing())
	var conns []*net.TCPConn
	for range clients {
		conns = append(conns, dialTCP(t, f.at))
	}
	time.Sleep(1500 * time.Millisecond)
	changed := time.Now()
	f.lead(live)
	for _, c := range conns {
		wantEcho(t, c, "")
		rec := d.record()
		if rec.Outcome != record.OutcomeOK || rec.Endpoint.Pod == "" {
			t.Errorf("record %+v", rec)
		}
		slowest = max(slowest, rec.Start.Add(rec.Connect).Sub(changed))
	}
	return slowest
}

// clientLeavesBetweenDials: a client that resets while its connection waits for another round of dials ends that.
func clientLeavesBetweenDials(t *trial) {
	d := t.start(timeouts(20_000, 20_000))
	f := d.tcp(t.refusing())
	c := dialTCP(t, f.at)
	t.eventually("the connection waits for another round", func() bool { return f.ring.rounds() > 0 })
	awaitReader()
	reset(c)
	if rec := d.record(); rec.Outcome != record.OutcomeClientReset || rec.ClosedBy != record.Client {
		t.Errorf("record %+v", rec)
	}
	if n := f.Active(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	rounds := f.ring.rounds()
	if time.Sleep(700 * time.Millisecond); f.ring.rounds() != rounds { // more than the longest pause
		t.Error("dials go on")
	}
}

// clientLeavesDuringDial: a client that resets the connection during a dial ends it then, and the record says so. One
// that only ends its direction waits on.
func clientLeavesDuringDial(t *trial) {
	d := t.start(timeouts(20_000))
	f := d.tcp(silent(t))
	waiting, c := dialTCP(t, f.at), dialTCP(t, f.at)
	waiting.CloseWrite()
	t.eventually("both dials have begun", func() bool { return f.Active() == 2 })
	awaitReader()
	reset(c)
	rec := d.record()
	if rec.Client != addrOf(c.LocalAddr()) || rec.Outcome != record.OutcomeClientReset ||
		rec.ClosedBy != record.Client || rec.CloseType != record.Reset || rec.Connect >= 0 ||
		len(rec.Attempts) != 1 || rec.Attempts[0].Err != "given up" {
		t.Errorf("record %+v", rec)
	}
	if f.Active() != 1 {
		t.Errorf("%d dials go on, want one", f.Active())
	}
	waiting.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := io.ReadFull(waiting, make([]byte, 1)); err == nil || isReset(err) {
		t.Errorf("the client that waits sees %v", err)
	}
}
