package splice

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

func TestSessionsOfOneSocket(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 2, func(b *udpBed) {
		b.say(1, "a")
		b.say(2, "b").reply(3)
		b.say(1, "c")
		b.wantSent("10.1.0.0 a", "10.1.0.1 b", "10.1.0.0 c")
		b.front.Close()
		b.run()
		b.say(3, "late")
		b.wantSent("10.1.0.0 a", "10.1.0.1 b", "10.1.0.0 c")
		r := b.records[0]
		carried := []int64{r.BytesFromClient, r.BytesToEndpoint, r.BytesFromEndpoint, r.BytesToClient}
		if len(b.records) != 2 || !slices.Equal(carried, []int64{1, 1, 3, 3}) || r.Outcome != record.OutcomeServiceRemoved ||
			r.Connect < 0 || r.FirstByte < 0 {
			t.Errorf("%d records, the first %+v", len(b.records), r)
		}
	})
}

// Refused clients leave a record and nothing else.
func TestSessionsRefused(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/31")}
	port := &service.Port{SourceRanges: ranges, Policy: service.Policy{MaxConnections: 1}}
	inUDPBed(t, Options{}, port, 1, func(b *udpBed) {
		b.say(1, "served")
		b.say(0, "one too many")
		b.say(2, "out of range")
		other := SessionKey{Client: netip.MustParseAddrPort("192.0.2.1:2"), Local: netip.MustParseAddr("10.96.0.11")}
		b.deliver(other, "not a portal")
		b.front.Close()
		b.run()
		b.wantOutcomes("192.0.2.0 limit", "192.0.2.2 source_range", "192.0.2.1 not_a_portal",
			"192.0.2.1 service_removed")
		b.wantSent("10.1.0.0 served")
	})
	inUDPBed(t, Options{}, &service.Port{}, 0, func(b *udpBed) {
		b.say(1, "x")
		b.wantOutcomes("192.0.2.1 no_endpoint")
	})
	inUDPBed(t, Options{}, &service.Port{}, 3, func(b *udpBed) {
		for i := range 3 {
			b.refuses[endpointNumber(i)] = true
		}
		b.say(1, "x")
		b.wantOutcomes("192.0.2.1 dial_failed")
		if n := len(b.records[0].Attempts); n != 3 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A client that claims an address of ours is refused, since the reply would come back as a request; one that has but
// the port is none.
func TestSessionsFromOwnAddresses(t *testing.T) {
	node := netip.MustParseAddr("192.0.2.77")
	opts := Options{NodeAddresses: func() []netip.Addr { return []netip.Addr{node} }}
	inUDPBed(t, opts, &service.Port{}, 1, func(b *udpBed) {
		proxyPort := netip.AddrPortFrom(netip.IPv4Unspecified(), 11001)
		b.core.listening.Store(service.Frontend{Addr: proxyPort, Protocol: inet.UDP}, b.front)
		defer b.core.listening.Delete(service.Frontend{Addr: proxyPort, Protocol: inet.UDP})
		plan := b.front.present().View
		nodePort := netip.AddrPortFrom(netip.IPv4Unspecified(), 30053)
		plan.Exposures = append(plan.Exposures, service.Exposure{Kind: service.NodePort,
			Frontend: service.Frontend{Addr: nodePort, Protocol: inet.UDP}})
		b.front.Retarget(&plan)
		b.run()
		for client, served := range map[string]bool{
			"10.96.0.10:53": false, "192.0.2.77:11001": false, "127.0.0.1:11001": false, "127.3.2.1:30053": false,
			"192.0.2.77:30053": false,
			"10.96.0.10:54":    true, "192.0.2.77:11002": true, "192.0.2.1:11001": true, "192.0.2.1:30053": true,
			"192.0.2.1:53": true, "192.0.2.77:53": true,
		} {
			before := len(b.records)
			b.deliver(SessionKey{Client: netip.MustParseAddrPort(client), Local: localAddr4}, client)
			b.run()
			switch {
			case served && len(b.records) > before:
				t.Errorf("%s is refused: %s", client, b.records[before].Outcome)
			case !served && (len(b.records) != before+1 || b.records[before].Outcome != record.OutcomeNotPortal ||
				b.records[before].OriginalDst != netip.AddrPortFrom(localAddr4, frontPort)):
				t.Errorf("%s is not refused: %v", client, b.records[before:])
			}
		}
	})
}

// A session whose endpoint is taken away passes on its answer, for a while; what its client asks next is another
// session's.
func TestDetachedSession(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
		old := b.say(1, "a")
		b.serve(1)
		b.say(1, "b").reply(1)
		b.wantSent("10.1.0.0 a", "10.1.0.1 b")
		for range 4 {
			b.pass(detachedTime / 5)
			old.reply(7) // does not prolong it
		}
		b.wantOutcomes()
		b.pass(detachedTime / 5)
		b.wantOutcomes("192.0.2.1 endpoint_removed")
		if r := b.records[0]; r.BytesFromEndpoint != 28 || r.Endpoint.Addr != endpointNumber(0) {
			t.Errorf("record %+v", r)
		}
	})
}

// An answer does not have a detached session outlast those that were detached later.
func TestDetachedSessionsEndInOrder(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
		first := b.say(1, "a")
		first.reply(1)
		b.serve(1)
		b.say(2, "a").reply(1)
		b.pass(time.Second)
		b.serve(2)
		first.reply(1)
		b.pass(detachedTime - time.Second)
		b.wantOutcomes("192.0.2.1 endpoint_removed")
		b.pass(time.Second)
		b.wantOutcomes("192.0.2.1 endpoint_removed", "192.0.2.2 endpoint_removed")
	})
}

// A detached session of a socket that closes has the outcome that it would have had.
func TestDetachedSessionIsClosed(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
		b.say(1, "a")
		b.say(2, "a").reply(1)
		b.serve(1)
		b.say(3, "a")
		b.front.Close()
		b.run()
		b.wantOutcomes("192.0.2.2 endpoint_removed", "192.0.2.1 endpoint_removed", "192.0.2.3 service_removed")
	})
}

// The first datagram of a detached session goes to another endpoint if its own turns out to be gone.
func TestDetachedSessionIsRefused(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
		old := b.say(1, "a")
		b.serve(1)
		old.Refused(errRefused, nil)
		b.run()
		b.wantSent("10.1.0.0 a", "10.1.0.1 a")
		b.wantOutcomes("192.0.2.1 endpoint_removed")
	})
}

// A session without an answer moves to another endpoint and takes its first datagram along.
func TestSessionMoves(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 4, func(b *udpBed) {
		b.refuses[endpointNumber(1)] = true
		c := b.say(1, "a")
		c.dead = true
		b.say(1, "b")
		b.wantSent("10.1.0.0 a", "10.1.0.2 a", "10.1.0.2 b")
		c.Refused(errRefused, nil) // told by the socket alone
		b.run()
		b.wantSent("10.1.0.0 a", "10.1.0.2 a", "10.1.0.2 b", "10.1.0.3 a")
		c.Refused(errRefused, nil)
		b.run()
		b.wantOutcomes("192.0.2.1 dial_failed")
		r := b.records[0]
		worked := func(a record.Attempt) bool { return a.Err != "refused" }
		if len(r.Attempts) != 4 || slices.ContainsFunc(r.Attempts, worked) {
			t.Errorf("attempts %+v", r.Attempts)
		}
		if r.BytesToEndpoint != 2 || r.ClosedBy != record.Endpoint {
			t.Errorf("record %+v", r)
		}
	})
}

// A session that had an answer ends when its endpoint refuses, and the datagram is another session's.
func TestSessionEndsByRefusal(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 2, func(b *udpBed) {
		c := b.say(1, "a")
		c.reply(1)
		c.dead = true
		b.say(1, "b")
		b.wantSent("10.1.0.0 a", "10.1.0.1 b")
		b.wantOutcomes("192.0.2.1 endpoint_reset")
		if r := b.records[0]; r.Error != "refused" || r.ClosedBy != record.Endpoint || r.BytesFromClient != 2 {
			t.Errorf("record %+v", r)
		}
	})
}

// The idle timeout is the present policy's, for open sessions too.
func TestSessionsIdle(t *testing.T) {
	policy := service.Policy{UDPIdle: 10 * time.Second}
	inUDPBed(t, Options{Policy: policy}, &service.Port{}, 1, func(b *udpBed) {
		b.say(1, "x")
		b.pass(6 * time.Second)
		b.say(2, "x").reply(1)
		b.pass(4 * time.Second)
		b.wantOutcomes("192.0.2.1 ok")
		b.pass(5 * time.Second)
		b.core.SetPolicy(service.Policy{UDPIdle: service.Never})
		b.run()
		b.pass(time.Hour)
		b.core.SetPolicy(policy)
		b.run()
		b.wantOutcomes("192.0.2.1 ok", "192.0.2.2 ok")
	})
}

// Datagrams that a client sends during a host lookup are buffered, up to some number.
func TestDatagramsBufferedDuringHostLookup(t *testing.T) {
	inHostBed(t, &service.Port{ExternalLocal: true}, 1, func(b *udpBed, answer func(bool)) {
		var want []string
		for i := range maxBuffered + 2 {
			b.say(1, fmt.Sprint(i))
			if i < maxBuffered {
				want = append(want, fmt.Sprint("10.1.0.0 ", i))
			}
		}
		b.wantSent()
		answer(true)
		b.wantSent(want...)
		if n := b.core.Stats().UDPDropped; n != 2 {
			t.Errorf("%d datagrams were dropped", n)
		}
		b.say(2, "x")
		b.front.Close() // before the answer
		b.run()
		answer(false)
		b.wantSent(want...)
		b.wantOutcomes("192.0.2.1 service_removed", "192.0.2.2 service_removed")
		if n := b.core.Stats().ReplayBytes; n != 0 {
			t.Errorf("%d bytes are still in the account", n)
		}
	})
}

// However many clients send during a host lookup, the bytes buffered for them are bounded.
func TestBufferedBytesDuringHostLookup(t *testing.T) {
	inHostBed(t, &service.Port{ExternalLocal: true}, 1, func(b *udpBed, answer func(bool)) {
		large := strings.Repeat("x", 60_000)
		for i := range 200 {
			for range maxBuffered {
				b.say(i, large)
			}
		}
		s := b.core.Stats()
		if s.ReplayBytes > s.Limits.ReplayBytes || s.ReplayBytes < s.Limits.ReplayBytes/2 || s.UDPDropped == 0 {
			t.Errorf("%d bytes are held, of at most %d; %d were dropped", s.ReplayBytes, s.Limits.ReplayBytes, s.UDPDropped)
		}
		b.front.Close()
		b.run()
		for range 200 {
			answer(false)
		}
		if n := b.core.Stats().ReplayBytes; n != 0 {
			t.Errorf("%d bytes are still in the account", n)
		}
	})
}

// An endpoint that is removed during the host lookup about it is not dialled.
func TestEndpointRemovedDuringHostLookup(t *testing.T) {
	port := &service.Port{Policy: service.Policy{ClientAddress: service.AddressTransparent}}
	inHostBed(t, port, 1, func(b *udpBed, answer func(bool)) {
		b.say(1, "a")
		b.serve(1)
		answer(true)
		b.wantSent()
		answer(true)
		b.wantSent("10.1.0.1 a")
	})
	inHostBed(t, port, 1, func(b *udpBed, answer func(bool)) {
		b.say(1, "a")
		b.serve()
		answer(true)
		b.wantSent()
		b.wantOutcomes("192.0.2.1 dial_failed")
		if r := b.records[0]; len(r.Attempts) != 1 || r.Attempts[0].Err != errRemoved.Error() {
			t.Errorf("record %+v", r)
		}
	})
}

// A session that moves during a host lookup has its first datagram sent once, before those that came meanwhile.
func TestSessionMovesDuringHostLookup(t *testing.T) {
	port := &service.Port{Policy: service.Policy{ClientAddress: service.AddressTransparent}}
	inHostBed(t, port, 2, func(b *udpBed, answer func(bool)) {
		c := b.say(1, "a")
		answer(false)
		c.dead = true
		b.say(1, "b")
		b.say(1, "c")
		b.wantSent("10.1.0.0 a")
		answer(false)
		b.wantSent("10.1.0.0 a", "10.1.0.1 a", "10.1.0.1 b", "10.1.0.1 c")
	})
}

// An attempt whose host lookup is pending when the session ends was given up.
func TestSessionCutDuringHostLookup(t *testing.T) {
	port := &service.Port{Policy: service.Policy{ClientAddress: service.AddressTransparent}}
	inHostBed(t, port, 1, func(b *udpBed, answer func(bool)) {
		b.say(1, "a")
		b.core.CutAll()
		b.run()
		answer(true)
		b.wantSent()
		b.wantOutcomes("192.0.2.1 cut")
		if r := b.records[0]; len(r.Attempts) != 1 || r.Attempts[0].Err != errGivenUp.Error() || r.Connect >= 0 {
			t.Errorf("record %+v", r)
		}
	})
}

// A drain lets sessions go on and begins none; one that waits is cut in the end.
func TestSessionsDrain(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
		b.say(1, "x").reply(1)
		b.say(2, "x")
		b.front.Drain()
		b.run()
		b.say(1, "y")
		if b.say(3, "x") != nil {
			t.Error("a session begins")
		}
		if !b.sessions.awaitsReply(b.core.Now()) {
			t.Error("no answer is waited for")
		}
		b.sessions.Find(SessionKey{netip.MustParseAddrPort("192.0.2.1:1"), localAddr4}).(*udpConn).reply(1)
		b.core.CutAll()
		b.run()
		b.wantOutcomes("192.0.2.2 cut", "192.0.2.1 service_removed")
	})
}

// One session is cut by its id.
func TestSessionCut(t *testing.T) {
	inUDPBed(t, Options{}, &service.Port{}, 1, func(b *udpBed) {
		b.say(1, "x")
		b.say(2, "x")
		live := b.core.Snapshot()
		if len(live) != 2 || live[0].Endpoint.Addr != endpointNumber(0) || live[0].BytesToEndpoint != 1 {
			t.Fatalf("snapshot %+v", live)
		}
		if open := b.core.OpenBytes(); len(open) != 1 || open[live[0].Service] != (Bytes{FromClient: 2}) {
			t.Errorf("bytes %v", open)
		}
		if !b.core.Cut(live[0].ID) || b.core.Cut(1<<40) {
			t.Error("cut by id")
		}
		b.run()
		b.wantOutcomes(live[0].Client.Addr().String() + " cut")
		if b.core.Cut(live[0].ID) {
			t.Error("it is cut again")
		}
	})
}

// Whatever happens, in whichever order, each session is counted once, is in its lists, and leaves one record.
func TestSessionsAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		policy := service.Policy{ClientAddress: service.AddressTransparent, UDPIdle: 20 * time.Second}
		opts := Options{UDPSessions: 12, Account: quota.NewAccount(quota.Budget{Sessions: 10}), Policy: policy}
		opts.IsLocalKnown = func(netip.Addr, int) (bool, bool) { return false, random.IntN(3) > 0 }
		var lookups atomic.Uint64 // by another goroutine
		yes := func() bool { return lookups.Add(1)%2 == 0 }
		opts.IsLocal = func(netip.Addr, int) bool { return yes() }
		opts.ReturnsKnown = func(_, _ netip.Addr, _ int) (bool, bool) { return false, random.IntN(3) > 0 }
		opts.Returns = func(_, _ netip.Addr, _ int) bool { return yes() }
		inUDPBed(t, opts, &service.Port{ExternalLocal: true}, 4, func(b *udpBed) {
			for range 400 {
				b.anything(random)
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// anything has something happen.
func (b *udpBed) anything(random *rand.Rand) {
	all := slices.Collect(b.sessions.lists.each)
	var c *udpConn
	if len(all) > 0 {
		c = all[random.IntN(len(all))].conn.(*udpConn)
	}
	switch what := random.IntN(10); {
	case what < 4 || c == nil:
		b.sayFrom(1+random.IntN(4), 1+random.IntN(6), "x")
	case what < 6 && c.endpoint.IsValid():
		c.reply(1)
	case what == 6 && c.endpoint.IsValid():
		c.Refused(errRefused, nil)
	case what == 7:
		c.dead = true
	case what == 8:
		b.serve(random.Perm(5)[:random.IntN(4)]...)
	default:
		b.pass(time.Duration(random.IntN(5000)) * time.Millisecond)
	}
	b.refuses = map[netip.AddrPort]bool{endpointNumber(random.IntN(5)): true}
	b.run()
}
