package splicetest

import (
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// handOverPlaces: what a client has open takes its places at a successor too, until it ends there.
func handOverPlaces(t *trial) {
	const each = 2
	s := t.succeeds(shares(service.Shares{MaxConnectionsPerClient: each}), inet.TCP, echoServer(t))
	open := dialTCP(t, s.front.at)
	exchange(t, open)
	if left := s.taken(noChange); left != 0 {
		t.Errorf("%d are left", left)
	}
	another := dialTCP(t, s.toNext.at)
	exchange(t, another)
	wantReset(t, s.toNext.at)
	wantRefusals(s.next, 1, loopback, record.OutcomeClientLimit)
	wantEcho(t, open, "x")
	if rec := s.next.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	last := dialTCP(t, s.toNext.at)
	exchange(t, last)
	for range each {
		exchange(t, dialTCP(t, s.front.at)) // here it has none any more
	}
}
