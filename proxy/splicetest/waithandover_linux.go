package splicetest

import (
	"errors"
	"io"
	"net"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
)

func waitHandOverScenarios() []scenario {
	return []scenario{
		{name: "WaitHandOver", run: waitHandOver, needs: Handover},
		{name: "WaitHandOverOfRequest", run: waitHandOverOfRequest, needs: Handover},
		{name: "WaitUDPHandOver", run: waitUDPHandOver, needs: Handover},
	}
}

// waitsLong has the clients of both of a succession wait for an endpoint.
var waitsLong = splice.Options{Policy: service.Policy{WaitForEndpoint: longest}}

// takenWaiting hands over the connections that wait, or has them taken and given back.
func (s *succession) takenWaiting(taken bool) {
	s.Helper()
	if !taken {
		_, err := s.old.Moving().HandOverWaiting(s.Context(), func([]*splice.Departure) (int, error) { return 0, errKept })
		if !errors.Is(err, errKept) {
			s.Fatal(err)
		}
		return
	}
	s.byProtocol(func(to *handover.Successor) error {
		if !to.TakesWaiting() {
			s.Error("the successor does not take what waits")
		}
		_, err := s.old.Moving().HandOverWaiting(s.Context(), to.Give(netip.AddrPort{}))
		return err
	})
}

// waitHandOver: connections that wait for an endpoint wait on with the successor, in their order, and so does one that
// has sent all it has; a connection that is not taken stays.
func waitHandOver(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		const n = 8
		s := t.succeeds(waitsLong, inet.TCP)
		var conns []*net.TCPConn
		var servers []netip.AddrPort
		for i := range n {
			name := string(rune('a' + i))
			servers = append(servers, serveTCP(t, loopback, func(c *net.TCPConn) {
				c.Write([]byte(name))
				echo(c)
			}))
			c := dialTCP(t, s.front.at)
			c.Write([]byte("early"))
			c.CloseWrite()
			conns = append(conns, c)
			awaitWaiting(s.old, int64(i+1))
		}
		if left := s.taken(noChange); left != n {
			t.Errorf("%d connections are left by a hand-over of those that are open", left)
		}
		s.takenWaiting(taken)
		on := s.on(taken)
		awaitWaiting(on, n)
		front := s.front
		if taken {
			front = s.toNext
		}
		front.lead(servers...)
		for i, c := range conns {
			wantRest(t, c, string(rune('a'+i))+"early")
		}
		for range n {
			if rec := on.record(); rec.Outcome != record.OutcomeOK || rec.Waited == 0 || rec.BytesFromClient != 5 {
				t.Errorf("record %+v", rec)
			}
		}
		s.givenBack()
	})
}

// waitHandOverOfRequest: what an endpoint has lost goes along with the connection, which waits for another. While it
// waits it may go to the endpoint that fails once more.
func waitHandOverOfRequest(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		const n, more = 5000, 100
		o := replaying()
		o.Policy.WaitForEndpoint = longest
		s := t.succeeds(o, inet.TCP, failing(t, n, record.Reset), t.refusing())
		s.toNext.lead()
		ask := request(n + more)
		c := dialTCP(t, s.front.at)
		c.Write(ask[:n])
		awaitWaiting(s.old, 1)
		s.front.lead() // it is not about to dial
		c.Write(ask[n:])
		s.takenWaiting(taken)
		on, front := s.on(taken), s.front
		if taken {
			front = s.toNext
		}
		awaitWaiting(on, 1)
		if kept := on.Stats().ReplayBytes; kept < n {
			t.Errorf("%d bytes are kept", kept)
		}
		live, got := answering(t, n+more)
		front.lead(live)
		io.ReadFull(c, make([]byte, len("answer")))
		c.CloseWrite()
		wantRest(t, c, "")
		wantRequest(t, ask, got)
		rec := on.record()
		if rec.Outcome != record.OutcomeOK || rec.Replays == 0 || rec.BytesFromClient != n+more ||
			rec.BytesToEndpoint != n+more || rec.Endpoint.Addr != live {
			t.Errorf("record %+v", rec)
		}
		s.givenBack()
		wantNothingKept(on)
	})
}

// waitUDPHandOver: so do sessions, with their last datagram.
func waitUDPHandOver(t *trial) {
	eitherWay(t, func(t *trial, taken bool) {
		s := t.succeeds(waitsLong, inet.UDP)
		c := dialUDP(t, s.front.at)
		for _, data := range []string{"first", "last"} {
			c.Write([]byte(data))
		}
		awaitWaiting(s.old, 1)
		t.eventually("both datagrams have come", func() bool { return liveOf(s.old).BytesFromClient == 9 })
		from := splice.SessionsAt(s.front.Front, s.front.at)
		front := s.front
		if taken {
			front = s.toNext
			s.byProtocol(func(to *handover.Successor) error {
				return errors.Join(from.HandOverAll(s.Context(), to.Give(s.toNext.at)),
					to.Resume(handover.Socket{Address: s.front.at}))
			})
		} else if err := from.HandOverAll(s.Context(), func([]*splice.Departure) (int, error) {
			return 0, errKept
		}); !errors.Is(err, errKept) {
			t.Fatal(err)
		}
		awaitWaiting(s.on(taken), 1)
		front.lead(named(t, "a"))
		if got := answerTo(t, c); got != "a last" {
			t.Errorf("got %q", got)
		}
		wantAnswer(t, c, "next", "a next")
		if n := len(s.old.records) + len(s.next.records); n != 0 {
			t.Errorf("%d records of one session that is open", n)
		}
	})
}
