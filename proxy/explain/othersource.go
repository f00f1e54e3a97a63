package explain

import (
	"fmt"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
)

// MayAnswer returns what tells flows that may be answers of an endpoint under another address or port: of UDP, not
// answered in turn, and with the address of an endpoint or its port.
func (s *Subject) MayAnswer() func(*flows.Flow) bool {
	addrs, ports := map[netip.Addr]bool{}, map[uint16]bool{}
	if s.Port.Name.Protocol == inet.UDP {
		for _, x := range s.Port.Endpoints {
			addrs[x.Addr.Addr()], ports[x.Addr.Port()] = true, true
		}
	}
	return func(f *flows.Flow) bool {
		return f.Protocol == inet.UDP && f.Status&flows.SeenReply == 0 && (ports[f.From.Port()] || addrs[f.From.Addr()])
	}
}

// otherSource is where answers come from in place of the endpoint that was asked.
type otherSource struct{ asked, from netip.AddrPort }

// otherSources finds endpoints of a subject whose answers come from another address or port than was asked.
type otherSources struct {
	*builder
	*Subject
	means func(service.Endpoint) bool // the query, an endpoint
}

func (o *otherSources) list() {
	if len(o.Answers) == 0 {
		return
	}
	asked := o.unansweredAt()
	of := map[netip.AddrPort]int{} // flows without an answer, by endpoint
	for _, endpoint := range asked {
		of[endpoint]++
	}
	found := map[otherSource]int{}
	var order []otherSource
	for _, f := range o.Answers {
		endpoint, waits := asked[f.To]
		if s := (otherSource{endpoint, f.From}); waits && f.From != endpoint {
			if found[s]++; found[s] == 1 {
				order = append(order, s)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	o.section("Answers from elsewhere")
	for _, s := range order {
		n := fmt.Sprintf("%d of %s", found[s], count(of[s.asked], "unanswered flow"))
		o.add(Wrong, nil, "answers of %s come from %s, for %s", o.name(s.asked), s.from, n)
		o.find(Wrong, "conntrack -L -p udp --orig-src "+s.from.Addr().String(), "Answers of %s to clients of %s come from "+
			"%s, not from %s: clients drop them (%s). A server with several addresses has to answer from the one that was "+
			"asked.", o.name(s.asked), o.label(), s.from, s.asked, n)
	}
}

// unansweredAt returns where answers of endpoints are expected, and of which: those to clients that the kernel leads
// there, and those to sessions.
func (o *otherSources) unansweredAt() map[netip.AddrPort]netip.AddrPort {
	at := map[netip.AddrPort]netip.AddrPort{}
	for _, x := range o.Port.Endpoints {
		if !o.means(x) {
			continue
		}
		for _, f := range o.Flows {
			if f.Replier == x.Addr && f.Status&flows.SeenReply == 0 {
				at[f.Answering] = x.Addr
			}
		}
	}
	for i := range o.Live {
		if l := &o.Live[i]; l.BytesFromEndpoint == 0 && l.Proxy.IsValid() && o.means(l.Endpoint) {
			at[l.Proxy] = l.Endpoint.Addr
		}
	}
	return at
}
