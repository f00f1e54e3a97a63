package splicetest

import (
	"io"
	"net"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// resetAndWaiting has a client ask the only endpoint of a Service, which fails when there is none any more.
func resetAndWaiting(d *dataPath, most time.Duration, ask []byte, how record.CloseType) (*front, *net.TCPConn) {
	d.t.Helper()
	release := make(chan struct{})
	at := serveTCP(d.t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, len(ask)))
		<-release
		if how == record.Reset {
			reset(c)
		}
	})
	f := serveWaiting(d, inet.TCP, most, at)
	c := dialTCP(d.t, f.at)
	c.Write(ask)
	d.t.eventually("it was sent", func() bool {
		all := d.Snapshot()
		return len(all) == 1 && all[0].BytesToEndpoint == int64(len(ask))
	})
	f.lead()
	close(release)
	awaitWaiting(d, 1)
	return f, c
}

// replayWaits: a client whose only endpoint has failed waits for the next one where the Service has clients wait.
func replayWaits(t *trial) {
	for _, how := range []record.CloseType{record.Reset, record.FIN} {
		live, got := answering(t, 300)
		d := t.start(replaying())
		ask := request(300)
		f, c := resetAndWaiting(d, longest, ask[:200], how)
		c.Write(ask[200:])
		f.lead(live)
		io.ReadFull(c, make([]byte, len("answer")))
		c.CloseWrite()
		wantRest(t, c, "")
		wantRequest(t, ask, got)
		rec, why := d.record(), resetEarly
		if how == record.FIN {
			why = closedEarly
		}
		wantReplays(t, rec, 1, 300, why, "")
		if rec.Waited <= 0 {
			t.Errorf("record %+v", rec)
		}
		wantNothingKept(d)
	}
}

// replayWaitTimesOut: none comes. The connection ends as its endpoint had ended it.
func replayWaitTimesOut(t *trial) {
	d := t.start(replaying(5000, 5000)) // the dial is to take as long as a busy machine takes for it
	_, c := resetAndWaiting(d, 400*time.Millisecond, []byte("hello"), record.Reset)
	wantOnlyReset(t, c)
	rec := d.record()
	wantResetByEndpoint(t, rec, 1)
	if len(rec.Attempts) != 1 || rec.Waited <= 0 {
		t.Errorf("record %+v", rec)
	}
	wantNothingKept(d)
}

// replayWaitingClientLeaves: a client that resets makes room at once.
func replayWaitingClientLeaves(t *trial) {
	d := t.start(replaying())
	_, c := resetAndWaiting(d, longest, []byte("hello"), record.Reset)
	awaitReader()
	reset(c)
	if rec := d.record(); rec.Outcome != record.OutcomeClientReset || rec.Replays != 1 {
		t.Errorf("record %+v", rec)
	}
	awaitWaiting(d, 0)
	wantNothingKept(d)
}
