package splice

import (
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// admit checks what a client dialled, its address and the limits of connections. The outcome is empty for a client that
// is admitted: it is counted until uncount. A destination that is no frontend of the service port means that the client
// connected to the proxy port itself, or that rules of others led it here.
func (f *life) admit(dst netip.AddrPort) record.Outcome {
	f.dst = dst
	exposed, ok := f.plan.exposure(dst)
	if !ok {
		return record.OutcomeNotPortal
	}
	f.portal = exposed.Kind
	if client := f.clientAddr(); !f.plan.admits(client, exposed.Kind) && !f.isNode(client, dst.Addr()) {
		return record.OutcomeSourceRange
	}
	return f.enter(f.began)
}

// isNode tells whether a client that source ranges leave out is this node, at an address that it has itself and dials
// from, and the ranges hold another address of it.
func (f *life) isNode(client, dst netip.Addr) bool {
	return client == dst && f.plan.Port.AdmitsNode(inet.FamilyOf(client), f.front.core.opts.NodeAddresses())
}

// isOwn tells whether a client claims an address at which the daemon itself receives: a frontend of the service port,
// or a proxy port. Anybody may write that into a datagram, and the answer would come back as the next question, without
// end.
func (f *life) isOwn(client netip.AddrPort) bool {
	core := f.front.core
	x, frontend := f.plan.exposure(client)
	if frontend && x.Frontend.Addr == client || core.listensAt(client, f.front.name.Protocol) {
		return true
	}
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), client.Port())
	if client.Addr().Is6() {
		everywhere = netip.AddrPortFrom(netip.IPv6Unspecified(), client.Port())
	}
	return (frontend || core.listensAt(everywhere, f.front.name.Protocol)) && (client.Addr().IsLoopback() ||
		slices.Contains(core.opts.NodeAddresses(), client.Addr()))
}

// uncount ends the count of a client that was admitted. It may be called more than once.
func (f *life) uncount() {
	if f.counted {
		f.counted = false
		f.front.leave()
		f.uncountClient()
	}
}

// join counts a connection or session until leave. False: the limit is exceeded by it.
func (f *Front) join(p *plan) bool {
	n, most := f.active.Add(1), p.policy.MaxConnections
	return most <= 0 || n <= int64(most)
}

// leave ends what join began.
func (f *Front) leave() { f.active.Add(-1) }

// question is what the host is asked about a client.
type question uint8

const (
	noQuestion question = iota
	isLocal             // Options.IsLocal
	returns             // Options.Returns
)

// located tells whether the endpoints of an admitted client depend on where it is. If so, start needs the index of the
// interface that it came in by.
func (f *life) located() bool {
	_, depends := f.plan.scope(f.portal)
	return depends
}

// start determines which endpoints are for an admitted client, and begins to dial.
func (f *life) start(iface int, now time.Duration) step {
	var depends bool
	if f.scope, depends = f.plan.scope(f.portal); !depends {
		return f.next(now)
	}
	o, client := &f.front.core.opts, f.clientAddr()
	inside, known := o.IsLocalKnown(client, iface)
	if !known {
		return f.ask(isLocal, func() bool { return o.IsLocal(client, iface) })
	}
	return f.locate(inside, now)
}

// locate begins to dial once it is known whether the client is inside the cluster.
func (f *life) locate(inside bool, now time.Duration) step {
	if inside {
		f.scope = service.ClusterScope
	}
	return f.next(now)
}

// ask returns the step that puts a question to the host.
func (f *life) ask(q question, put func() bool) step {
	f.asked = q
	return step{kind: stepAsk, ask: put}
}

// answered goes on with the answer to the question of the last stepAsk.
func (f *life) answered(yes bool, now time.Duration) step {
	q, removed := f.asked, f.removed
	f.asked, f.removed = noQuestion, false
	switch {
	case q == isLocal:
		return f.locate(yes, now)
	case removed:
		return f.failed(errRemoved, Enough, now)
	default:
		return f.dialStep(yes)
	}
}

// waitsForHost tells whether a question has no answer yet.
func (f *life) waitsForHost() bool { return f.asked != noQuestion }
