package splicetest

import (
	"io"
	"net"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func drainScenarios() []scenario {
	return []scenario{
		{name: "ConnectionsOutliveListener", run: connectionsOutliveListener},
		{name: "DrainAndCut", run: drainAndCut},
		{name: "UDPDrain", run: udpDrain},
		{name: "UDPDrainAfterChange", run: udpDrainAfterChange},
	}
}

// connectionsOutliveListener: connections go on when the listener that accepted them is closed.
func connectionsOutliveListener(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.Close()
	t.eventually("the listener no longer accepts", func() bool {
		other, err := net.Dial("tcp", f.at.String())
		if err == nil {
			other.Close()
		}
		return err != nil && !isReset(err)
	})
	wantEcho(t, c, "b")
}

// drainAndCut: a drain waits for connections to end, and those that have not are reset at the end of the engine.
func drainAndCut(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	ends, stays := dialTCP(t, f.at), dialTCP(t, f.at)
	exchange(t, ends)
	exchange(t, stays)
	f.Close()
	ends.Close()
	if first := d.record(); first.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", first)
	}
	if left := d.Drain(t.timeout(100 * time.Millisecond)); left != 1 {
		t.Errorf("%d connections left, want 1", left)
	}
	d.stop()
	if _, err := io.ReadFull(stays, make([]byte, 1)); !seenAsReset(t, err) {
		t.Errorf("client sees %v, want a reset", err)
	}
	if second := d.record(); second.Outcome != record.OutcomeCut {
		t.Errorf("record %+v", second)
	}
}

// udpDrain: a drain waits for answers that are under way, and takes no new client.
func udpDrain(t *trial) {
	d := t.start(splice.Options{})
	pod, answer := slowNamed(t, "pod")
	f := d.udp(pod)
	served, waiting := dialUDP(t, f.at), dialUDP(t, f.at)
	ask(t, served, "x")
	waiting.Write([]byte("slow"))
	d.sessions(2)
	f.Drain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		d.Drain(t.timeout(30 * time.Second))
	}()
	wantAnswer(t, served, "y", "pod y")
	t.eventually("no session begins", func() bool { return !answeredSoon(dialUDP(t, f.at)) }) // Drain returns at once
	select {
	case <-drained:
		t.Error("the drain did not wait for an answer")
	default:
	}
	answer()
	if got := answerTo(t, waiting); got != "pod slow" {
		t.Errorf("got %q", got)
	}
	select {
	case <-drained:
	case <-time.After(4 * time.Second):
		t.Error("the drain did not end with the last answer")
	}
	wantDrained(t, d)
}

// wantDrained expects two sessions to end with their service, and all descriptors to be closed.
func wantDrained(t *trial, d *dataPath) {
	t.Helper()
	d.stop()
	for range 2 {
		if rec := d.record(); rec.Outcome != record.OutcomeServiceRemoved {
			t.Errorf("record %+v", rec)
		}
	}
	if n := d.Stats().Descriptors; n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// udpDrainAfterChange: a drain waits for answers of endpoints that were taken away before it.
func udpDrainAfterChange(t *trial) {
	d := t.start(splice.Options{})
	pod, answer := slowNamed(t, "pod")
	f := d.udp(pod)
	waiting := dialUDP(t, f.at)
	waiting.Write([]byte("slow"))
	d.sessions(1)
	f.know()
	f.Drain()
	time.AfterFunc(200*time.Millisecond, answer)
	d.Drain(t.timeout(30 * time.Second))
	d.stop()
	if got := answerTo(t, waiting); got != "pod slow" {
		t.Errorf("got %q", got)
	}
}
