package splicetest

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func leavingScenarios() []scenario {
	return []scenario{
		{name: "UDPLeavingMakeRoom", run: udpLeavingMakeRoom},
		{name: "UDPLeavingMakeRoomInOrder", run: udpLeavingMakeRoomInOrder},
	}
}

// ofOneClient is how many of 60 sessions one client may have.
const ofOneClient = 54

// udpLeavingMakeRoom: sessions that leave make room for those that wait for an answer.
func udpLeavingMakeRoom(t *trial) {
	d := t.start(splice.Options{UDPSessions: 60})
	old := named(t, "old")
	pod, answer := slowNamed(t, "new")
	f := d.udp(old)
	for range 50 {
		ask(t, dialUDP(t, f.at), "x")
	}
	f.lead(pod)
	slow := askSlowly(t, f.at, 40)
	wantMadeRoom(t, d, old, 50+40-ofOneClient)
	answer()
	wantAnswers(t, slow, "new slow")
}

// wantMadeRoom expects that so many sessions with an endpoint are ended for others. On a busy machine some that leave
// have ended by themselves.
func wantMadeRoom(t *trial, d *dataPath, endpoint netip.AddrPort, n int) {
	t.Helper()
	for range n {
		if rec := d.record(); rec.Outcome != record.OutcomeLimit && !hasLeft(rec) || rec.Endpoint.Addr != endpoint {
			t.Fatalf("record %+v", rec)
		}
	}
}

// hasLeft tells whether a session of an endpoint that was removed was left alone for as long as it may be.
func hasLeft(rec *record.Record) bool {
	return rec.Outcome == record.OutcomeEndpointRemoved && rec.Duration >= 3*time.Second
}

// udpLeavingMakeRoomInOrder: of sessions that leave, those that have their answer make room before those that were
// there earlier and wait. On a busy machine some have waited for as long as they may by then, and are ended for that.
func udpLeavingMakeRoomInOrder(t *trial) {
	d := t.start(splice.Options{UDPSessions: 60})
	old, answer := slowNamed(t, "old")
	other := named(t, "new")
	f := d.udp(old)
	slow := askSlowly(t, f.at, 20)
	d.sessions(20)
	f.lead(other)
	for range 25 {
		ask(t, dialUDP(t, f.at), "x")
	}
	f.lead(old)
	slow = append(slow, askSlowly(t, f.at, 30)...)
	for range 20 + 25 + 30 - ofOneClient {
		switch rec := d.record(); {
		case rec.Outcome == record.OutcomeLimit && rec.Endpoint.Addr == other:
		case hasLeft(rec) && rec.Endpoint.Addr == old:
			slow = slices.DeleteFunc(slow, func(c *net.UDPConn) bool { return addrOf(c.LocalAddr()) == rec.Client })
		default:
			t.Fatalf("record %+v", rec)
		}
	}
	answer()
	wantAnswers(t, slow, "old slow")
}
