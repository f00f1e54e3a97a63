package explain

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// Answers that come from where nobody asked are seen in the conntrack table, whoever carries the Service.
func TestAnswersFromElsewhere(t *testing.T) {
	client, node := netip.AddrPortFrom(outside, 4000), netip.MustParseAddrPort("192.0.2.1:5000")
	const fromA = "Answers of 10.244.0.2:8080 (pod shop/cart-a) to clients of shop/cart:http come from "
	for _, c := range []struct {
		name        string
		from, to    string // of a flow that nobody asked for
		of          inet.Protocol
		answered    bool // it was, in turn
		userspace   bool
		replied     bool // the endpoint has answered as it should
		candidate   bool
		verdict     string
		masqueraded bool
	}{
		{name: "another address", from: "10.244.0.9:8080", to: "198.51.100.4:4000", candidate: true,
			verdict: fromA + "10.244.0.9:8080, not from 10.244.0.2:8080: clients drop them (1 of 1 unanswered flow)."},
		{name: "another port", from: "10.244.0.2:9999", to: "198.51.100.4:4000", candidate: true,
			verdict: fromA + "10.244.0.2:9999, not from 10.244.0.2:8080"},
		{name: "to the address that masquerades", from: "10.244.0.9:8080", to: "192.0.2.1:5000", masqueraded: true,
			candidate: true, verdict: fromA + "10.244.0.9:8080"},
		{name: "to a session", from: "10.244.0.9:8080", to: "192.0.2.1:5000", userspace: true, candidate: true,
			verdict: fromA + "10.244.0.9:8080"},
		{name: "to a session that has answers", from: "10.244.0.9:8080", to: "192.0.2.1:5000", userspace: true, replied: true,
			candidate: true},
		{name: "as it should be", from: "10.244.0.2:8080", to: "198.51.100.4:4000", candidate: true},
		{name: "to somebody else", from: "10.244.0.9:8080", to: "198.51.100.4:4001", candidate: true},
		{name: "where answers came", from: "10.244.0.9:8080", to: "198.51.100.4:4000", replied: true, candidate: true},
		{name: "of others", from: "10.244.0.9:53", to: "198.51.100.4:4000"},
		{name: "of TCP", from: "10.244.0.9:8080", to: "198.51.100.4:4000", of: inet.TCP},
		{name: "the client goes on there", from: "10.244.0.2:9999", to: "198.51.100.4:4000", answered: true},
	} {
		s := newScene()
		s.Port.Name.Protocol = inet.UDP
		for i := range s.Port.Exposures {
			s.Port.Exposures[i].Frontend.Protocol = inet.UDP
		}
		asked := flows.Flow{Protocol: inet.UDP, From: client, To: clusterIP, Replier: s.Port.Endpoints[0].Addr,
			Answering: client}
		if c.masqueraded {
			asked.Answering = node
		}
		if c.replied {
			asked.Status = flows.SeenReply
		}
		if c.userspace {
			l := record.Live{Service: s.Port.Name, Start: now, LastMoved: now, State: record.StateOpen, Client: client,
				Proxy: node, Endpoint: s.Port.Endpoints[0], BytesFromClient: 5, BytesToEndpoint: 5}
			if c.replied {
				l.BytesFromEndpoint = 5
			}
			s.Live = append(s.Live, l)
		} else {
			s.node.Mode, s.Flows = service.ModeKernel, []flows.Flow{asked}
		}
		s.apply(portal.Redirect{Port: 11000})
		other := flows.Flow{Protocol: inet.UDP, From: netip.MustParseAddrPort(c.from), To: netip.MustParseAddrPort(c.to)}
		if c.of != 0 {
			other.Protocol = c.of
		}
		if c.answered {
			other.Status = flows.SeenReply
		}
		if may := s.MayAnswer()(&other); may != c.candidate {
			t.Errorf("%s: may be an answer: %v", c.name, may)
		} else if may {
			s.Answers = append(s.Answers, other)
		}
		r := s.explain(t)
		if got := strings.Contains(text(r), "Answers from elsewhere"); got != (c.verdict != "") ||
			!strings.Contains(r.Verdict.Text, c.verdict) || got && r.Next != "conntrack -L -p udp --orig-src "+
			other.From.Addr().String() {
			t.Errorf("%s: verdict %+v, next %q\n%s", c.name, r.Verdict, r.Next, text(r))
		}
	}
}

// Only datagrams have answers that their client would not get.
func TestNoAnswersOfTCPFromElsewhere(t *testing.T) {
	f := flows.Flow{Protocol: inet.UDP, From: netip.MustParseAddrPort("10.244.0.2:8080")}
	if newScene().MayAnswer()(&f) {
		t.Error("a flow of UDP may be an answer of TCP")
	}
}
