package splice

import (
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// admission is the place that a client has among those of its front.
type admission struct {
	counted bool // among the live ones of the front
	placed  bool // and among those of its client
}

// admit checks what a client dialled, its address and the limits of connections. The outcome is empty for a client that
// is admitted: it is counted until uncount. A destination that is no frontend of the service port means that the client
// connected to the proxy port itself, or that rules of others led it here.
func (a *admission) admit(e *entry, dst netip.AddrPort) record.Outcome {
	e.dst = dst
	exposed, ok := e.plan.exposure(dst)
	if !ok {
		return record.OutcomeNotPortal
	}
	e.portal = exposed.Kind
	if client := e.clientAddr(); !e.plan.admits(client, exposed.Kind) && !e.isNode(client, dst.Addr()) {
		return record.OutcomeSourceRange
	}
	return a.enter(e, e.began)
}

// isNode tells whether a client that source ranges leave out is this node, at an address that it has itself and dials
// from, and the ranges hold another address of it.
func (e *entry) isNode(client, dst netip.Addr) bool {
	return client == dst && e.plan.Port.AdmitsNode(inet.FamilyOf(client), e.front.core.opts.NodeAddresses())
}

// isOwn tells whether a client claims an address at which the daemon itself receives: a frontend of the service port,
// or a proxy port. Anybody may write that into a datagram, and the answer would come back as the next question, without
// end.
func (e *entry) isOwn(client netip.AddrPort) bool {
	core := e.front.core
	x, frontend := e.plan.exposure(client)
	if frontend && x.Frontend.Addr == client || core.listensAt(client, e.front.name.Protocol) {
		return true
	}
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), client.Port())
	if client.Addr().Is6() {
		everywhere = netip.AddrPortFrom(netip.IPv6Unspecified(), client.Port())
	}
	return (frontend || core.listensAt(everywhere, e.front.name.Protocol)) && (client.Addr().IsLoopback() ||
		slices.Contains(core.opts.NodeAddresses(), client.Addr()))
}

// uncount ends the count of a client that was admitted. It may be called more than once.
func (a *admission) uncount(e *entry) {
	if a.counted {
		a.counted = false
		e.front.leave()
		a.uncountClient(e)
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
func (e *entry) located() bool {
	_, depends := e.plan.scope(e.portal)
	return depends
}

// start determines which endpoints are for an admitted client, and begins to dial.
func (d *dialler) start(e *entry, iface int, now time.Duration) step {
	var depends bool
	if e.scope, depends = e.plan.scope(e.portal); !depends {
		return d.next(e, now)
	}
	o, client := &e.front.core.opts, e.clientAddr()
	inside, known := o.IsLocalKnown(client, iface)
	if !known {
		return d.ask(e, isLocal, func() bool { return o.IsLocal(client, iface) })
	}
	return d.locate(e, inside, now)
}

// locate begins to dial once it is known whether the client is inside the cluster.
func (d *dialler) locate(e *entry, inside bool, now time.Duration) step {
	if inside {
		e.scope = service.ClusterScope
	}
	return d.next(e, now)
}

// ask returns the step that puts a question to the host.
func (d *dialler) ask(e *entry, q question, put func() bool) step {
	d.asked = q
	return step{kind: stepAsk, ask: put}
}

// answered goes on with the answer to the question of the last stepAsk.
func (d *dialler) answered(e *entry, yes bool, now time.Duration) step {
	q, removed := d.asked, d.removed
	d.asked, d.removed = noQuestion, false
	switch {
	case q == isLocal:
		return d.locate(e, yes, now)
	case removed:
		return d.failed(e, errRemoved, Enough, now)
	default:
		return d.dialStep(e, yes)
	}
}

// waitsForHost tells whether a question has no answer yet.
func (d *dialler) waitsForHost() bool { return d.asked != noQuestion }
