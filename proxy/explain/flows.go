package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
)

// flows are the entries of the conntrack table.
func (e *explained) flows() {
	asked := slices.DeleteFunc(slices.Clone(e.Flows), func(f flows.Flow) bool { return !e.asked(f) })
	if len(asked) == 0 && e.FlowsErr == nil {
		return
	}
	e.section("Connection tracking")
	if e.FlowsErr != nil {
		e.add(Doubt, nil, "not read: %v", e.FlowsErr)
	}
	e.unanswered(asked)
	for i, f := range asked {
		stale := e.stale(f)
		if stale {
			e.find(Doubt, "conntrack -L -p udp --orig-dst "+f.To.Addr().String(),
				"A UDP flow of %s still leads to %s, which is no endpoint of %s.", f.From, f.Replier, e.label())
		}
		if i < mostFlows {
			e.flow(f, stale)
		}
	}
	if n := len(asked) - mostFlows; n > 0 {
		e.add(Fact, nil, "and %d more", n)
	}
}

// asked tells whether a flow leads to the endpoint that was asked for or begins there, and comes from the client that
// was.
func (e *explained) asked(f flows.Flow) bool {
	if e.query.From.IsValid() && f.From.Addr() != e.query.From {
		return false
	}
	of := func(x service.Endpoint) bool {
		return e.query.means(x) && (x.Addr == f.Replier || x.Addr.Addr() == f.From.Addr())
	}
	return e.query.Pod == "" && !e.query.Endpoint.IsValid() || slices.ContainsFunc(e.Port.Endpoints, of) ||
		slices.ContainsFunc(e.former(), of)
}

// unanswered finds endpoints of which flows that the kernel carries get no answer.
func (e *explained) unanswered(all []flows.Flow) {
	if e.Applied == nil || e.Applied.Mode != service.ModeKernel {
		return
	}
	for _, x := range e.Port.Endpoints {
		led, mute := 0, 0
		for _, f := range all {
			if f.Replier == x.Addr {
				if led++; f.Status&flows.SeenReply == 0 {
					mute++
				}
			}
		}
		// A SYN is answered within the time of a round trip: if that of the only client was not, this is no chance.
		only := e.Port.Name.Protocol == inet.TCP && mute == 1 && led == 1
		if mute < enough && !only || mute*oneIn < led {
			continue
		}
		s := e.ways().to(x.Addr, e.ways().askedAt(all, x.Addr))
		why, next := s.text, s.next
		if e.Port.Name.Protocol == inet.UDP && !s.gone {
			next = "portald conns " + e.flag() + " --endpoint " + x.Addr.String()
			why = fmt.Sprintf("nothing listens at port %d there, its answers are lost or come from another address, or what "+
				"the clients send has no answer", x.Addr.Port())
		}
		e.find(Doubt, next, "%d of %s to %s as an endpoint of %s %s no answer: %s.", mute, count(led, "tracked flow"),
			e.name(x.Addr), e.label(), have(mute), why)
	}
}

func (e *explained) flow(f flows.Flow, stale bool) {
	status, notes := Fact, ""
	if f.Status&flows.SeenReply == 0 {
		status = Doubt
	}
	if stale {
		status, notes = Doubt, ", which is no endpoint now"
	}
	e.add(status, nil, "%s", flowText(f, notes))
}

// stale tells whether a UDP flow leads where no new flow is led.
func (e *explained) stale(f flows.Flow) bool {
	if f.Protocol != inet.UDP || e.Applied == nil || e.node.Local == nil {
		return false
	}
	for _, x := range e.Port.Endpoints {
		if x.Addr == f.Replier {
			return false
		}
	}
	for _, p := range e.Applied.Claims {
		if to, ok := p.Target.(portal.Redirect); ok && to.Port == f.Replier.Port() && e.node.Local(f.Replier.Addr()) {
			return false
		}
	}
	return f.Replier != netip.AddrPort{}
}
