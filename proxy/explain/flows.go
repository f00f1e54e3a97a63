package explain

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/kernel/flows"
)

// mostFlows bounds the entries that are listed.
const mostFlows = 10

// flows are the entries of the conntrack table.
func (e *explained) flows() {
	if len(e.Flows) == 0 && e.FlowsErr == nil {
		return
	}
	e.section("Connection tracking")
	if e.FlowsErr != nil {
		e.add(Doubt, nil, "not read: %v", e.FlowsErr)
	}
	for i, f := range e.Flows {
		stale := e.stale(f)
		if stale {
			e.find(Doubt, "conntrack -L -p udp --orig-dst "+f.To.Addr().String(),
				"A UDP flow of %s still leads to %s, which is no endpoint of %s.", f.From, f.Replier, e.label())
		}
		if i < mostFlows {
			e.flow(f, stale)
		}
	}
	if n := len(e.Flows) - mostFlows; n > 0 {
		e.add(Fact, nil, "and %d more", n)
	}
}

func (e *explained) flow(f flows.Flow, stale bool) {
	status, notes := Fact, ""
	if state := f.State.String() + f.SCTP.String(); state != "" {
		notes = " " + state
	}
	if f.Status&flows.SeenReply == 0 {
		status, notes = Doubt, notes+", no answer yet"
	}
	if stale {
		status, notes = Doubt, notes+", which is no endpoint now"
	}
	e.add(status, nil, "%s %s to %s, led to %s%s, %d s left", f.Protocol, f.From, f.To, f.Replier, notes,
		f.Timeout)
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
