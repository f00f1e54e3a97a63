package dataplane

import (
	"context"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// forget has the kernel forget the UDP flows of these frontends whose answers come from where no portal of now leads: a
// client that keeps sending would keep such a flow alive. What never was translated, for want of a portal, goes too.
func (d *Dataplane) forget(ctx context.Context, led []portal.Change) error {
	fixed, nodePorts := map[netip.AddrPort]answerers{}, map[uint16]answerers{}
	for _, c := range led {
		switch {
		case c.Frontend.Protocol != service.UDP:
		case c.Frontend.Addr.Addr().IsUnspecified():
			nodePorts[c.Frontend.Addr.Port()] = append(nodePorts[c.Frontend.Addr.Port()], d.answerer(c)) // of both families
		default:
			fixed[c.Frontend.Addr] = answerers{d.answerer(c)}
		}
	}
	if d.opts.ForgetUDP == nil || len(fixed)+len(nodePorts) == 0 {
		return nil
	}
	_, err := d.opts.ForgetUDP(ctx, func(dst, answers netip.AddrPort) bool {
		who, ok := fixed[dst]
		if !ok && !dst.Addr().IsLoopback() && d.opts.Own(dst.Addr()) { // the daemon itself listens at loopback
			who, ok = nodePorts[dst.Port()]
		}
		return ok && !who.has(answers)
	})
	return err
}

// spread are the UDP frontends that lead straight to endpoints, of service ports that changed: one that goes after it was
// left out for a while moves no portal, and yet its flows are stale now.
func (d *Dataplane) spread(changes []service.Change) (out []portal.Change) {
	for _, c := range changes {
		if c.Port == nil || c.Name.Protocol != service.UDP {
			continue
		}
		for _, x := range c.Port.Exposures {
			if held := d.table.Held(x.Frontend); held != nil && held.Owner == c.Name {
				if _, ok := held.Target.(portal.Spread); ok {
					out = append(out, portal.Change{Frontend: x.Frontend, Portal: held})
				}
			}
		}
	}
	return out
}

// answerer is who may answer for a frontend: the daemon's proxy port, any endpoint that serves, or nobody. A traffic
// policy or a hint that changed is no reason to break a flow: those that the portal leaves out count too.
type answerer struct {
	family    service.IPFamily
	port      uint16 // 0 = none
	endpoints []service.Endpoint
}

type answerers []answerer

func (d *Dataplane) answerer(c portal.Change) answerer {
	a := answerer{family: service.FamilyOf(c.Frontend.Addr.Addr())}
	if c.Portal == nil {
		return a
	}
	switch t := c.Portal.Target.(type) {
	case portal.Redirect:
		a.port = t.Port
	case portal.Spread:
		if p := d.ports[c.Portal.Owner]; p != nil {
			a.endpoints = p.EndpointsOf(a.family)
		}
	}
	return a
}

func (all answerers) has(from netip.AddrPort) bool {
	return slices.ContainsFunc(all, func(a answerer) bool {
		if a.port != 0 && a.port == from.Port() && a.family == service.FamilyOf(from.Addr()) {
			return true
		}
		i, ok := slices.BinarySearchFunc(a.endpoints, from, func(e service.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) })
		return ok && a.endpoints[i].Serving
	})
}
