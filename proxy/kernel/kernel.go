// Package kernel is the carrier without listeners: portals spread over endpoints, and the kernel carries. It does not
// know how portals are written.
package kernel

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Options of a Carrier.
type Options struct {
	Node string // the node's name: it decides which endpoints serve from here where not all can
	// Bounded reports a service port of which only MaxBound endpoints of one family serve from this node; nil = to nobody.
	Bounded func(name service.PortName, endpoints int)
	// Algorithm is the daemon's, which may change; nil = AlgorithmDefault. Its round robin, the default of all modes, is
	// the Writer's own way in this one.
	Algorithm func() service.Algorithm
	// Offers tells which algorithms the Writer has; nil = all. A service port with another one has the daemon's.
	Offers func(service.Algorithm) bool
	// NodeAddresses are this node's, as of now: see Readmit. nil = they are not known.
	NodeAddresses func() []netip.Addr
}

// Carrier implements dataplane.Carrier. One goroutine calls it. The zero value is not usable.
type Carrier struct {
	opts   Options
	pools  map[service.PortName]pools
	ranged map[service.PortName]*service.Port // those with source ranges
}

// pools are the pools of a service port, by family; nil where it has none.
type pools [2]*portal.Pool

// New returns a Carrier that carries nothing yet.
func New(opts Options) *Carrier {
	if opts.Bounded == nil {
		opts.Bounded = func(service.PortName, int) {}
	}
	if opts.Algorithm == nil {
		opts.Algorithm = func() service.Algorithm { return service.AlgorithmDefault }
	}
	if opts.Offers == nil {
		opts.Offers = func(service.Algorithm) bool { return true }
	}
	if opts.NodeAddresses == nil {
		opts.NodeAddresses = func() []netip.Addr { return nil }
	}
	return &Carrier{opts, map[service.PortName]pools{}, map[service.PortName]*service.Port{}}
}

// Serve returns the portals of a service port.
func (c *Carrier) Serve(p *service.Port) ([]portal.Portal, error) {
	out := make([]portal.Portal, 0, len(p.Exposures))
	var now pools
	for _, family := range inet.Families() {
		exposures := p.ExposuresOf(family)
		if len(exposures) == 0 {
			continue
		}
		usable := p.UsableEndpoints(family)
		pool := c.same(p.Name, family, c.poolOf(p, usable, family))
		if all := len(usable[service.ClusterScope]); pool != c.pools[p.Name][family] && all > len(pool.Cluster) {
			c.opts.Bounded(p.Name, all)
		}
		now[family] = pool
		for _, x := range exposures {
			out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: target(p, usable, x.Kind, pool)})
		}
	}
	c.pools[p.Name] = now
	if delete(c.ranged, p.Name); len(p.SourceRanges) > 0 {
		c.ranged[p.Name] = p
	}
	return out, nil
}

// Retire drops the pools of service ports that the kernel no longer carries.
func (c *Carrier) Retire(_ []service.PortName, left []service.Change) error {
	for _, l := range left {
		delete(c.pools, l.Name)
		delete(c.ranged, l.Name)
	}
	return nil
}

// Readmit returns the service ports that would get other portals by now: their source ranges contain this node and did
// not, or do no longer, since its addresses have changed. Costs O(service ports with source ranges).
func (c *Carrier) Readmit() (out []service.PortName) {
	node := c.opts.NodeAddresses()
	for name, p := range c.ranged {
		for family, pool := range c.pools[name] {
			if pool != nil && pool.AdmitsNode != p.AdmitsNode(inet.Family(family), node) {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// ProxyPorts returns none: there are no listeners.
func (c *Carrier) ProxyPorts() map[portal.ProxyPort]bool { return nil }

// same returns the pool that the service port had if it is equal, since Spreads are compared by their pools' addresses.
func (c *Carrier) same(name service.PortName, family inet.Family, pool *portal.Pool) *portal.Pool {
	if was := c.pools[name][family]; was != nil && was.Equal(pool) {
		return was
	}
	return pool
}

func target(p *service.Port, usable service.UsableEndpoints, k service.Kind, pool *portal.Pool) portal.Target {
	switch p.Availability(usable, k) {
	case service.Unavailable:
		return portal.Reject{}
	case service.UnavailableHere:
		return portal.Drop{}
	}
	return portal.Spread{Pool: pool, Scope: p.Scope(k)}
}

func (c *Carrier) poolOf(p *service.Port, usable service.UsableEndpoints, family inet.Family) *portal.Pool {
	cluster, node := endpoints(usable[service.ClusterScope]), endpoints(usable[service.NodeScope])
	if p.Affinity > 0 {
		cluster, node = bound(cluster, c.opts.Node), bound(node, c.opts.Node)
	}
	ranges := p.SourceRangesOf(family)
	return &portal.Pool{
		Cluster: cluster, Node: node, Affinity: p.Affinity, Algorithm: c.opts.algorithm(p),
		SourceRanges: ranges, Restricted: len(ranges) > 0, AdmitsNode: p.AdmitsNode(family, c.opts.NodeAddresses()),
	}
}

// endpoints converts the endpoints of a scope. One whose node is unknown may be on this node.
func endpoints(of []service.Endpoint) []portal.Endpoint {
	var out []portal.Endpoint
	for _, e := range of {
		out = append(out, portal.Endpoint{Addr: e.Addr, MayHairpin: e.Local || e.Node == ""})
	}
	return out
}
