// Package kernel is the carrier without listeners: portals lead straight to endpoints, and the kernel carries. It does
// not know how portals are written.
package kernel

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// Carrier implements dataplane.Carrier. One goroutine calls it. The zero value is not usable.
type Carrier struct {
	pools map[service.PortName]pools
}

// pools are those of a service port, by family; nil where it has none.
type pools [2]*portal.Pool

// New returns a Carrier that carries nothing yet.
func New() *Carrier { return &Carrier{map[service.PortName]pools{}} }

// Serve returns where the portals of a service port lead.
func (c *Carrier) Serve(p *service.Port) ([]portal.Portal, error) {
	out := make([]portal.Portal, 0, len(p.Exposures))
	var now pools
	for family, ipv6 := range []bool{false, true} {
		exposures := p.ExposuresOf(ipv6)
		if len(exposures) == 0 {
			continue
		}
		offer := p.Offer(ipv6)
		pool := c.same(p.Name, family, poolOf(p, offer, ipv6))
		now[family] = pool
		for _, x := range exposures {
			out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: target(p, offer, x.Kind, pool)})
		}
	}
	c.pools[p.Name] = now
	return out, nil
}

// Settle forgets service ports that it does not carry any more.
func (c *Carrier) Settle(_ []service.PortName, left []service.Change) error {
	for _, l := range left {
		delete(c.pools, l.Name)
	}
	return nil
}

// ProxyPorts has none: there are no listeners.
func (c *Carrier) ProxyPorts() map[portal.ProxyPort]bool { return nil }

// same is the pool that the service port had, when that is equal: targets are compared by it.
func (c *Carrier) same(name service.PortName, family int, pool *portal.Pool) *portal.Pool {
	if was := c.pools[name][family]; was != nil && was.Equal(pool) {
		return was
	}
	return pool
}

func target(p *service.Port, o service.Offer, k service.Kind, pool *portal.Pool) portal.Target {
	switch p.Reach(o, k) {
	case service.ReachNobody:
		return portal.Reject{}
	case service.ReachSilent:
		return portal.Drop{}
	}
	return portal.Spread{Pool: pool, Scope: p.Scope(k)}
}

func poolOf(p *service.Port, o service.Offer, ipv6 bool) *portal.Pool {
	return &portal.Pool{
		Cluster: endpoints(o[service.ClusterScope]), Node: endpoints(o[service.NodeScope]), Affinity: p.Affinity,
		SourceRanges: ranges(p.SourceRanges, ipv6), Restricted: len(p.SourceRanges) > 0,
	}
}

// endpoints are those of a scope. One whose node is not told may be on this one.
func endpoints(of []service.Endpoint) []portal.Endpoint {
	var out []portal.Endpoint
	for _, e := range of {
		out = append(out, portal.Endpoint{Addr: e.Addr, Here: e.Local || e.Node == ""})
	}
	return out
}

func ranges(all []netip.Prefix, ipv6 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return p.Addr().Is6() != ipv6 })
}
