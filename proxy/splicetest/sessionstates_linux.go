package splicetest

import (
	"errors"
	"net"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
)

func sessionHandOverScenarios() []scenario {
	return []scenario{
		{name: "UDPHandOver", run: udpHandOver, needs: Handover},
		{name: "UDPHandOverUnanswered", run: udpHandOverUnanswered, needs: Handover | Refusals},
		{name: "UDPHandOverOfLeavingEndpoint", run: udpHandOverOfLeavingEndpoint, needs: Handover},
		{name: "UDPHandOverIdle", run: udpHandOverIdle, needs: Handover},
		{name: "UDPHandOverOfMany", run: udpHandOverOfMany, needs: Handover},
	}
}

// takenSessions hands over all sessions, or has them taken and given back.
func (s *succession) takenSessions(taken bool, meanwhile func()) {
	s.Helper()
	from := splice.SessionsAt(s.front.Front, s.front.at)
	if !taken {
		err := from.HandOver(s.Context(), func([]*splice.Departure) (int, error) {
			meanwhile()
			return 0, errKept
		})
		if !errors.Is(err, errKept) {
			s.Fatal(err)
		}
		return
	}
	s.byProtocol(func(to *handover.Successor) error {
		give := to.Give(s.toNext.at)
		err := from.HandOver(s.Context(), func(all []*splice.Departure) (int, error) {
			meanwhile()
			return give(all)
		})
		return errors.Join(err, to.Resume(handover.Socket{Address: s.front.at}))
	})
	if n := s.old.Stats().Sessions; n != 0 || s.front.Active() != 0 {
		s.Errorf("%d sessions are left", n)
	}
}

// eitherWay runs a part with sessions that are taken over, and with some that stay.
func eitherWay(t *trial, run func(t *trial, taken bool)) {
	t.Helper()
	t.sub("taken", func(t *trial) { run(t, true) })
	t.sub("kept", func(t *trial) { run(t, false) })
}

// on is the data path that goes on.
func (s *succession) on(taken bool) *dataPath {
	if taken {
		return s.next
	}
	return s.old
}

// udpHandOver: sessions with and without an answer go on, and nothing is lost that comes meanwhile from either side.
func udpHandOver(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		pod, answer := slowNamed(t, "pod")
		s := t.succeeds(splice.Options{Policy: service.Policy{UDPIdle: silence}}, inet.UDP, pod)
		answered, waiting := dialUDP(t, s.front.at), dialUDP(t, s.front.at)
		wantAnswer(t, answered, "x", "pod x")
		waiting.Write([]byte("slow"))
		s.old.sessions(2)
		s.takenSessions(taken, func() {
			answered.Write([]byte("yy"))
			answer()
		})
		for c, want := range map[*net.UDPConn]string{answered: "pod yy", waiting: "pod slow"} {
			if got := answerTo(t, c); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		bytes := int64(0)
		for range 2 {
			rec := s.on(taken).record()
			if bytes += rec.BytesFromClient; rec.Outcome != record.OutcomeOK || rec.FirstByte < 0 {
				t.Errorf("record %+v", rec)
			}
		}
		if bytes != 3+4 {
			t.Errorf("%d bytes of the clients are recorded", bytes)
		}
		s.givenBack()
	})
}

// udpHandOverUnanswered: a first datagram whose endpoint turns out to be gone goes to another one, also afterwards.
func udpHandOverUnanswered(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		gone, err := net.ListenPacket("udp", net.JoinHostPort(loopback, "0"))
		t.must(err)
		s := t.succeeds(splice.Options{}, inet.UDP, addrOf(gone.LocalAddr()), named(t, "live"))
		c := dialUDP(t, s.front.at)
		c.Write([]byte("first"))
		gone.SetReadDeadline(time.Now().Add(longest))
		_, _, err = gone.ReadFrom(make([]byte, 10))
		t.must(err)
		s.takenSessions(taken, func() { gone.Close() })
		if got := askAgain(t, c, "lost"); got != "live first" { // a datagram tells that nobody is there
			t.Errorf("got %q", got)
		}
	})
}

// udpHandOverOfLeavingEndpoint: a session whose endpoint has left by the time that it arrives still has its answer, and
// the client's next datagram goes elsewhere.
func udpHandOverOfLeavingEndpoint(t *trial) {
	old, answer := slowNamed(t, "old")
	s := t.succeeds(splice.Options{}, inet.UDP, old)
	c := dialUDP(t, s.front.at)
	c.Write([]byte("slow"))
	s.old.sessions(1)
	s.toNext.lead(named(t, "new"))
	s.takenSessions(true, func() {})
	wantAnswer(t, c, "x", "new x")
	answer()
	if got := answerTo(t, c); got != "old slow" {
		t.Errorf("got %q", got)
	}
	if rec := s.next.record(); rec.Outcome != record.OutcomeEndpointRemoved || rec.Endpoint.Addr != old {
		t.Errorf("record %+v", rec)
	}
}

// udpHandOverIdle: the time that a session was silent before counts.
func udpHandOverIdle(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		t.Parallel()
		s := t.succeeds(splice.Options{Policy: service.Policy{UDPIdle: 2 * silence}}, inet.UDP, named(t, "a"))
		ask(t, dialUDP(t, s.front.at), "x")
		rec := s.silent(func() { s.takenSessions(taken, func() {}) })
		if rec.Outcome != record.OutcomeOK {
			t.Errorf("record %+v", rec)
		}
		s.givenBack()
	})
}

// udpHandOverOfMany: sessions of several batches go on, or stay where they are, each with its own record.
func udpHandOverOfMany(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		const many = 1000
		s := t.succeeds(splice.Options{}, inet.UDP, named(t, "pod"))
		var clients []*net.UDPConn
		for range many {
			c := dialUDP(t, s.front.at)
			wantAnswer(t, c, "x", "pod x")
			clients = append(clients, c)
		}
		began := time.Now()
		s.takenSessions(taken, func() {})
		t.Logf("%d sessions in %s, taken %t", many, time.Since(began).Round(time.Millisecond), taken)
		for _, c := range clients {
			wantAnswer(t, c, "y", "pod y")
		}
		ids := map[uint64]bool{}
		s.on(taken).CutAll()
		for range clients {
			rec := s.on(taken).record()
			if ids[rec.ID] = true; rec.BytesFromClient != 2 || rec.BytesToClient != 2*int64(len("pod x")) {
				t.Errorf("record %+v", rec)
			}
		}
		if len(ids) != many {
			t.Errorf("records of %d sessions, want %d", len(ids), many)
		}
		s.givenBack()
	})
}
