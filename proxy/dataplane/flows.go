package dataplane

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// The kernel asks rules about the first packet of a flow alone. So once the rules of a frontend are others, flows are
// stale that go by those of before, and their clients keep them alive as long as they send: those of UDP, and of every
// protocol those that nobody answered when no rule led anywhere yet, as the connection of a pod that started before its
// Service did. These are deleted, after the rules are there, so that the next packet meets them.

// flows are which flows a look in the conntrack table is due for. The zero value is none.
type flows struct {
	all        bool                          // those of every frontend
	udp        map[service.Frontend]struct{} // those of UDP to these frontends
	unanswered bool                          // those that nobody answered, to any frontend
	clusterIPs map[netip.Addr]struct{}       // or to these addresses: with a port that no Service has
}

func (f *flows) empty() bool { return !f.all && !f.unanswered && len(f.udp) == 0 }

// add adds what changes of portals made stale.
func (f *flows) add(changed []portal.Change) {
	for _, c := range changed {
		if c.Frontend.Protocol == inet.UDP {
			put(&f.udp, c.Frontend)
		}
		if !newlyLed(c) {
			continue
		}
		f.unanswered = true
		if c.Portal.Kind == service.ClusterIP {
			put(&f.clusterIPs, c.Frontend.Addr.Addr())
		}
	}
}

func put[K comparable](to *map[K]struct{}, k K) {
	if *to == nil {
		*to = map[K]struct{}{}
	}
	(*to)[k] = struct{}{}
}

// newlyLed tells whether flows are led somewhere that were not before, or by other means. Those that rules refuse leave
// no entry in the table.
func newlyLed(c portal.Change) bool {
	if c.Portal == nil || led(c.Portal.Target) == "" {
		return false
	}
	return c.Was == nil || led(c.Was.Target) != led(c.Portal.Target)
}

// led is by what means a target leads flows; empty: it refuses them.
func led(t portal.Target) string {
	switch t.(type) {
	case portal.Redirect:
		return "listener"
	case portal.Spread:
		return "kernel"
	}
	return ""
}

// Looks take a tenth of the time, as a node may have changes all the time: in the table of a large node one takes a
// tenth of a second. Clients send again after a second or two, so that the next look waits no longer. What is due
// earlier is not worth a wait.
const (
	flowShare = 10
	soonLook  = 10 * time.Millisecond
	lateLook  = time.Second
)

// deleteStale deletes the flows that are due, unless it is too early for another look: then a Sweep does. A failure is
// reported: rules are no worse for it.
func (d *Dataplane) deleteStale(ctx context.Context) {
	began := time.Now()
	if d.stale.empty() || began.Before(d.nextLook) {
		return
	}
	stale := d.stale
	d.stale = flows{}
	if err := d.look(ctx, stale); err != nil && ctx.Err() == nil {
		d.opts.Warn(fmt.Errorf("look for stale flows: %w", err))
	}
	now := time.Now()
	if wait := min((flowShare-1)*now.Sub(began), lateLook); wait > soonLook {
		d.nextLook = now.Add(wait)
	}
}

// look deletes flows whose replies come from an address that no portal leads to.
func (d *Dataplane) look(ctx context.Context, due flows) error {
	if due.all {
		due.add(asChanges(d.table.Portals()))
	}
	var udp []portal.Change
	for f := range due.udp {
		udp = append(udp, portal.Change{Frontend: f, Portal: d.table.Held(f)})
	}
	if err := d.deleteUDP(ctx, udp, noReplier); err != nil || !due.unanswered || d.opts.DeleteFlows == nil {
		return err
	}
	_, err := d.opts.DeleteFlows(ctx, inet.FlowQuery{Unanswered: true}, func(f inet.Flow) bool {
		to := service.Frontend{Addr: f.To, Protocol: f.Protocol}
		held := d.leads(to)
		if held == nil {
			_, ours := due.clusterIPs[f.To.Addr()]
			return ours
		}
		return noReplier(f, repliers{d.replierOf(portal.Change{Frontend: to, Portal: held})})
	})
	return err
}

// leads returns the portal that packets to an address meet.
func (d *Dataplane) leads(to service.Frontend) *portal.Portal {
	if held := d.table.Held(to); held != nil || !d.ownAddress(to.Addr.Addr()) {
		return held
	}
	to.Addr = netip.AddrPortFrom(inet.FamilyOf(to.Addr.Addr()).Unspecified(), to.Addr.Port())
	return d.table.Held(to)
}

// ownAddress tells whether NodePorts may be served at an address. At loopback the daemon itself listens.
func (d *Dataplane) ownAddress(a netip.Addr) bool { return !a.IsLoopback() && d.opts.Own(a) }

// noReplier tells whether a flow's replies come from elsewhere.
func noReplier(f inet.Flow, may repliers) bool { return !may.include(f.Replier) }

// deleteAbandoned deletes the UDP flows to listeners of these portals that were removed, and those that nobody has
// translated since. Others go on: another service proxy may have come, and have the same endpoints.
func (d *Dataplane) deleteAbandoned(ctx context.Context, removed []portal.Change) error {
	return d.deleteUDP(ctx, removed, func(f inet.Flow, were repliers) bool {
		return !f.Translated() || were.include(f.Replier)
	})
}

// deleteUDP deletes the UDP flows of these frontends that bad names, by who may reply. It leaves out those that servers
// of the host have answered at its own addresses, which rules never led anywhere.
func (d *Dataplane) deleteUDP(
	ctx context.Context, changed []portal.Change, bad func(f inet.Flow, may repliers) bool,
) error {
	fixed, nodePorts := map[netip.AddrPort]repliers{}, map[uint16]repliers{}
	var to []netip.AddrPort
	for _, c := range changed {
		if c.Frontend.Protocol != inet.UDP {
			continue
		}
		to = append(to, c.Frontend.Addr)
		if c.Frontend.Addr.Addr().IsUnspecified() {
			port := c.Frontend.Addr.Port()
			nodePorts[port] = append(nodePorts[port], d.replierOf(c)) // of both families
		} else {
			fixed[c.Frontend.Addr] = repliers{d.replierOf(c)}
		}
	}
	if d.opts.DeleteFlows == nil || len(to) == 0 {
		return nil
	}
	_, err := d.opts.DeleteFlows(ctx, inet.FlowQuery{To: to}, func(f inet.Flow) bool {
		own := d.ownAddress(f.To.Addr())
		may, ok := fixed[f.To]
		if !ok && own {
			may, ok = nodePorts[f.To.Port()]
		}
		server := own && f.Answered && !f.Translated()
		return ok && !server && bad(f, may)
	})
	return err
}

// spreadUDP returns the UDP portals that spread over endpoints, of service ports that changed: an endpoint that goes
// after it was left out for a while changes no portal, and yet its flows are stale now.
func (d *Dataplane) spreadUDP(changes []service.Change) (out []portal.Change) {
	for _, c := range changes {
		if c.Port == nil || c.Name.Protocol != inet.UDP {
			continue
		}
		for _, x := range c.Port.Exposures {
			held := d.table.Held(x.Frontend)
			if held == nil || held.Owner != c.Name {
				continue
			}
			if _, ok := held.Target.(portal.Spread); ok {
				out = append(out, portal.Change{Frontend: x.Frontend, Portal: held, Was: held})
			}
		}
	}
	return out
}

// replier is who may reply for a frontend: the daemon's proxy port, or any endpoint that serves; the zero value is
// none. Endpoints that a traffic policy or a topology hint leaves out count too: that is no reason to break a flow.
type replier struct {
	family    inet.Family
	port      uint16 // 0 = none
	endpoints []service.Endpoint
}

type repliers []replier

func (d *Dataplane) replierOf(c portal.Change) replier {
	r := replier{family: inet.FamilyOf(c.Frontend.Addr.Addr())}
	if c.Portal == nil {
		return r
	}
	switch t := c.Portal.Target.(type) {
	case portal.Redirect:
		r.port = t.Port
	case portal.Spread:
		if p := d.ports[c.Portal.Owner]; p != nil {
			r.endpoints = p.EndpointsOf(r.family)
		}
	}
	return r
}

func (all repliers) include(addr netip.AddrPort) bool {
	return slices.ContainsFunc(all, func(r replier) bool {
		if r.port != 0 && r.port == addr.Port() && r.family == inet.FamilyOf(addr.Addr()) {
			return true
		}
		byAddr := func(e service.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) }
		i, ok := slices.BinarySearchFunc(r.endpoints, addr, byAddr)
		return ok && r.endpoints[i].Serving
	})
}
