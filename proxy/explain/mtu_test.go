package explain

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
)

// What the kernel tells of sockets, on a path of 1,500 bytes.
var (
	// lossTo: a full segment was sent again four times, the last time some seconds ago.
	lossTo = record.TCPInfo{Known: true, PathMTU: 1500, MSS: 1448, SegmentsSent: 9, Retransmits: 4, Lost: 1,
		RetransmitBytes: 4 * 1448, Timeouts: 4, RTO: 4 * time.Second, LargestReceived: 536, SinceHeard: 5 * time.Second}
	// lossFrom: a segment came, and those before it did not.
	lossFrom = record.TCPInfo{Known: true, PathMTU: 1500, MSS: 1448, SegmentsSent: 1, OutOfOrder: 1,
		MissingInBetween: true, LargestReceived: 536, SinceHeard: 5 * time.Second}
	// little: a small exchange a moment ago.
	little = record.TCPInfo{Known: true, PathMTU: 1500, MSS: 1448, SegmentsSent: 1, LargestReceived: 536,
		SinceHeard: 100 * time.Millisecond}
)

// carries adds open connections to an endpoint; bytes went to it.
func (s *scene) carries(n, to int, tcp record.TCPInfo, bytes int64) {
	for range n {
		s.Live = append(s.Live, record.Live{
			Service: s.Port.Name, Start: now.Add(-time.Minute), LastMoved: now.Add(-5 * time.Second), State: record.StateOpen,
			Client: netip.AddrPortFrom(pod, 4000), Endpoint: s.Port.Endpoints[to], EndpointTCP: tcp,
			BytesFromClient: bytes, BytesToEndpoint: bytes, BytesFromEndpoint: 5,
		})
	}
}

// with is a copy of what the kernel tells with a change.
func with(i record.TCPInfo, edit func(*record.TCPInfo)) record.TCPInfo {
	edit(&i)
	return i
}

const hole = "it looks like an MTU black hole"

// Large segments that are lost are an MTU black hole only where small ones are not.
func TestMTUBlackHole(t *testing.T) {
	for _, c := range []struct {
		name    string
		facts   func(*scene)
		verdict string // empty: no hole is found
		next    string
	}{
		{"large requests", func(s *scene) { s.carries(3, 0, lossTo, 7000); s.carries(5, 0, little, 10) },
			cartA + ": 3 of 8 connections of shop/cart:http send full segments (1448 bytes) to it again and again (12 so " +
				"far), without an acknowledgement, while 5 others lost nothing: " + hole + ", a link from here to there for " +
				"packets of less than 1500 bytes, whose ICMP messages do not arrive (see also mtu-pods of portald doctor).",
			"ping -M do -c 3 -s 1472 10.244.0.2"},
		{"large answers", func(s *scene) { s.carries(2, 0, lossFrom, 10); s.carries(5, 0, little, 10) },
			cartA + ": 2 of 7 connections of shop/cart:http miss segments in the middle of what it sends, while 5 others lost " +
				"nothing: " + hole + ", a link from there to here", "ping -M do -c 3 -s 1472 10.244.0.2"},
		{"both", func(s *scene) {
			s.carries(2, 0, lossFrom, 10)
			s.carries(2, 0, lossTo, 7000)
			s.carries(5, 0, little, 10)
		},
			", and 2 miss segments in the middle of what it sends, while 5 others lost nothing: " + hole + ", a link between",
			"ping -M do -c 3 -s 1472 10.244.0.2"},
		{"connections that have ended", func(s *scene) {
			p := &past{s: s}
			p.add(3, 0, func(r *record.Record) { r.Outcome, r.EndpointTCP = record.OutcomeClientReset, lossTo })
			p.add(5, 0, func(r *record.Record) { r.EndpointTCP = little })
		}, cartA + ": 3 of 8 connections", "ping -M do -c 3 -s 1472 10.244.0.2"},
		{"large answers to a client", func(s *scene) {
			s.carries(3, 0, little, 10)
			s.carries(3, 0, little, 10)
			for i := range s.Live {
				s.Live[i].ClientTCP = little
				if i < 3 {
					s.Live[i].ClientTCP = lossTo
				}
			}
		}, "client 10.244.0.9: 3 of 6 connections of shop/cart:http send full segments (1448 bytes) to it",
			"ping -M do -c 3 -s 1472 10.244.0.9"},
		{"IPv6", func(s *scene) {
			s.Port.Endpoints[0].Addr = netip.MustParseAddrPort("[fd00::2]:8080")
			s.carries(3, 0, lossTo, 7000)
			s.carries(5, 0, little, 10)
		}, "[fd00::2]:8080 (pod shop/cart-a): 3 of 8", "ping -M do -c 3 -s 1452 fd00::2"},
		{"one connection", func(s *scene) { s.carries(1, 0, lossTo, 7000); s.carries(5, 0, little, 10) }, "", ""},
		{"its host has gone", func(s *scene) {
			s.carries(3, 0, lossTo, 7000)
			s.carries(5, 0, with(little, func(i *record.TCPInfo) { i.SinceHeard = 5 * time.Second }), 10)
		}, "", ""},
		{"its host has gone in mid-answer", func(s *scene) {
			s.carries(3, 0, lossFrom, 10)
			s.carries(5, 0, with(little, func(i *record.TCPInfo) { i.SinceHeard = 4500 * time.Millisecond }), 10)
		}, "", ""},
		{"nothing small goes on", func(s *scene) { s.carries(3, 0, lossTo, 7000) }, "", ""},
		{"small ones of another endpoint", func(s *scene) {
			s.carries(3, 0, lossTo, 7000)
			s.carries(5, 1, little, 10)
		}, "", ""},
		{"small ones are lost too", func(s *scene) {
			s.carries(3, 0, lossTo, 7000)
			s.carries(5, 0, little, 10)
			s.carries(1, 0, with(little, func(i *record.TCPInfo) { i.Retransmits = 1 }), 10)
		}, "", ""},
		{"large ones arrive", func(s *scene) {
			s.carries(3, 0, lossTo, 7000)
			s.carries(5, 0, little, 10)
			s.carries(1, 0, with(little, func(i *record.TCPInfo) { i.SegmentsSent = 5 }), 5*1448)
		}, "", ""},
		{"large ones come", func(s *scene) {
			s.carries(3, 0, lossFrom, 10)
			s.carries(5, 0, little, 10)
			s.carries(1, 0, with(little, func(i *record.TCPInfo) { i.LargestReceived = 1448 }), 10)
		}, "", ""},
		{"large ones came before the gap", func(s *scene) {
			s.carries(3, 0, with(lossFrom, func(i *record.TCPInfo) { i.LargestReceived = 1448 }), 10)
			s.carries(5, 0, little, 10)
		}, "", ""},
		{"segments out of order, a moment ago", func(s *scene) {
			s.carries(3, 0, with(lossFrom, func(i *record.TCPInfo) { i.SinceHeard = time.Millisecond }), 10)
			s.carries(5, 0, little, 10)
		}, "", ""},
		{"small segments are sent again", func(s *scene) {
			s.carries(3, 0, with(lossTo, func(i *record.TCPInfo) { i.RetransmitBytes = 4 * 100 }), 100)
			s.carries(5, 0, little, 10)
		}, "", ""},
		{"it is silent", func(s *scene) {
			s.carries(3, 0, with(little, func(i *record.TCPInfo) { i.SinceHeard = 5 * time.Second }), 7000)
			s.carries(5, 0, little, 10)
		}, "", ""},
		{"long ago", func(s *scene) {
			p := &past{s: s}
			p.add(3, 0, func(r *record.Record) { r.EndpointTCP = lossTo })
			p.add(5, 0, func(r *record.Record) { r.EndpointTCP = little })
			for _, r := range s.Records {
				r.Start = r.Start.Add(-time.Hour)
			}
		}, "", ""},
	} {
		s := newScene()
		c.facts(s)
		r := s.explain(t)
		if c.verdict == "" {
			if strings.Contains(r.Verdict.Text, hole) {
				t.Errorf("%s: verdict %+v", c.name, r.Verdict)
			}
		} else if r.Verdict.Status != Doubt || !strings.Contains(r.Verdict.Text, c.verdict) || r.Next != c.next {
			t.Errorf("%s: verdict %+v, next %q", c.name, r.Verdict, r.Next)
		}
	}
}

// What is lost is said also where it is not known whether small segments pass.
func TestLostSegments(t *testing.T) {
	s := newScene()
	s.carries(3, 0, lossTo, 7000)
	const want = "= Lost segments\ndoubt " + cartA + ": 3 of 3 connections of shop/cart:http send full segments (1448 " +
		"bytes) to it again and again (12 so far), without an acknowledgement; nothing was heard"
	r := s.explain(t)
	if got := text(r); !strings.Contains(got, want) {
		t.Error(got)
	}
	if r.Verdict.Status != Doubt || !strings.Contains(r.Verdict.Text, "which its host does not acknowledge") {
		t.Errorf("verdict %+v", r.Verdict)
	}
}
