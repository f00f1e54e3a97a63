package explain

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
)

// Tracked returns which entries of the conntrack table a report shows of a subject: those to its frontends, and for an
// endpoint those alone that it answers, or began. Local tells the addresses of this host.
func (q Query) Tracked(s *Subject, local func(netip.Addr) bool) func(flows.Flow) bool {
	dialled := func(f flows.Flow) bool { return s.Dialled(f.To, f.Protocol, local) }
	if !q.OfEndpoint() {
		return dialled
	}
	ports, addrs := map[netip.AddrPort]bool{}, q.Addresses(s)
	q.eachEndpoint(s, func(x service.Endpoint) { ports[x.Addr] = true })
	return func(f flows.Flow) bool {
		return f.Protocol == s.Port.Name.Protocol && (ports[f.Replier] || addrs[f.From.Addr()] && dialled(f))
	}
}

// Addresses are those of the endpoint that was asked for; none for other queries.
func (q Query) Addresses(s *Subject) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	if q.OfEndpoint() {
		q.eachEndpoint(s, func(x service.Endpoint) { out[x.Addr.Addr()] = true })
	}
	return out
}

// eachEndpoint calls use with what was asked for, endpoints that were included.
func (q *Query) eachEndpoint(s *Subject, use func(service.Endpoint)) {
	each := func(x service.Endpoint) {
		if x.Addr.IsValid() && q.means(x) {
			use(x)
		}
	}
	for _, x := range s.Port.Endpoints {
		each(x)
	}
	for i := range s.Live {
		each(s.Live[i].Endpoint)
	}
	for _, r := range s.Records {
		each(r.Endpoint)
	}
}

// Frontends are where a flow may have been sent to: its destination, and on this host the NodePort.
func Frontends(f flows.Flow, local func(netip.Addr) bool) []service.Frontend {
	out := []service.Frontend{{Addr: f.To, Protocol: f.Protocol}}
	if local(f.To.Addr()) {
		everywhere := inet.FamilyOf(f.To.Addr()).Unspecified()
		out = append(out, service.Frontend{Addr: netip.AddrPortFrom(everywhere, f.To.Port()), Protocol: f.Protocol})
	}
	return out
}

// outgoing adds what the pod that was asked for began to other Services.
func (b *builder) outgoing(all []Outgoing) {
	if len(all) == 0 {
		return
	}
	b.prefix = ""
	b.section("Connection tracking, of its own connections to other Services")
	for _, o := range all[:min(mostFlows, len(all))] {
		status := Fact
		if o.Status&flows.SeenReply == 0 {
			status = Doubt
		}
		b.add(status, nil, "%s: %s", o.Service.Label(), flowText(o.Flow, ""))
	}
	if n := len(all) - mostFlows; n > 0 {
		b.add(Fact, nil, "and %d more", n)
	}
}
