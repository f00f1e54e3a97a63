package dataplane

import (
	"context"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// deleteStale deletes the UDP flows of these frontends whose replies come from an address that no portal leads to any
// more: a client that keeps sending would keep such a flow alive. Flows that were never translated, for want of a
// portal, go too.
func (d *Dataplane) deleteStale(ctx context.Context, changed []portal.Change) error {
	return d.deleteFlows(ctx, changed, func(_, replier netip.AddrPort, may repliers) bool { return !may.include(replier) })
}

// deleteAbandoned deletes the UDP flows to listeners of these portals that were removed, and those that nobody has
// translated since. Others go on: another service proxy may have come, and have the same endpoints.
func (d *Dataplane) deleteAbandoned(ctx context.Context, removed []portal.Change) error {
	return d.deleteFlows(ctx, removed, func(dst, replier netip.AddrPort, were repliers) bool {
		return replier == dst || were.include(replier)
	})
}

// deleteFlows deletes the UDP flows of these frontends that bad names, by the address that the client wrote to, the one
// that replies, and who may.
func (d *Dataplane) deleteFlows(
	ctx context.Context, changed []portal.Change, bad func(dst, replier netip.AddrPort, may repliers) bool,
) error {
	fixed, nodePorts := map[netip.AddrPort]repliers{}, map[uint16]repliers{}
	for _, c := range changed {
		switch {
		case c.Frontend.Protocol != service.UDP:
		case c.Frontend.Addr.Addr().IsUnspecified():
			port := c.Frontend.Addr.Port()
			nodePorts[port] = append(nodePorts[port], d.replierOf(c)) // of both families
		default:
			fixed[c.Frontend.Addr] = repliers{d.replierOf(c)}
		}
	}
	if d.opts.DeleteUDP == nil || len(fixed)+len(nodePorts) == 0 {
		return nil
	}
	_, err := d.opts.DeleteUDP(ctx, func(dst, replier netip.AddrPort) bool {
		may, ok := fixed[dst]
		if !ok && !dst.Addr().IsLoopback() && d.opts.Own(dst.Addr()) { // the daemon itself listens at loopback
			may, ok = nodePorts[dst.Port()]
		}
		return ok && bad(dst, replier, may)
	})
	return err
}

// spreadUDP returns the UDP portals that spread over endpoints, of service ports that changed: an endpoint that goes
// after it was left out for a while changes no portal, and yet its flows are stale now.
func (d *Dataplane) spreadUDP(changes []service.Change) (out []portal.Change) {
	for _, c := range changes {
		if c.Port == nil || c.Name.Protocol != service.UDP {
			continue
		}
		for _, x := range c.Port.Exposures {
			held := d.table.Held(x.Frontend)
			if held == nil || held.Owner != c.Name {
				continue
			}
			if _, ok := held.Target.(portal.Spread); ok {
				out = append(out, portal.Change{Frontend: x.Frontend, Portal: held})
			}
		}
	}
	return out
}

// replier is who may reply for a frontend: the daemon's proxy port, or any endpoint that serves; the zero value is
// none. Endpoints that a traffic policy or a topology hint leaves out count too: that is no reason to break a flow.
type replier struct {
	family    service.IPFamily
	port      uint16 // 0 = none
	endpoints []service.Endpoint
}

type repliers []replier

func (d *Dataplane) replierOf(c portal.Change) replier {
	r := replier{family: service.FamilyOf(c.Frontend.Addr.Addr())}
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
		if r.port != 0 && r.port == addr.Port() && r.family == service.FamilyOf(addr.Addr()) {
			return true
		}
		byAddr := func(e service.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) }
		i, ok := slices.BinarySearchFunc(r.endpoints, addr, byAddr)
		return ok && r.endpoints[i].Serving
	})
}
