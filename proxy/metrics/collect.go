package metrics

import (
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/portal/service"
)

// shown has the numbers that a scrape exports of a service port in its own series.
type shown struct {
	labels    []string // service, protocol
	counts    *counts  // nil: among the rest
	timings   *timings // nil: among the rest
	endpoints []shownEndpoint
}

type shownEndpoint struct {
	endpointCounts
	address, pod string
}

// Collect implements prometheus.Collector. Service ports without a finished connection are left out.
func (c *connMetrics) Collect(to chan<- prometheus.Metric) {
	own, together := c.snapshot()
	for i := range own {
		c.descs.showOwn(to, &own[i], &c.bounds)
	}
	for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
		c.descs.showRest(to, together.of(protocol), &c.bounds, protocol.String())
	}
}

// snapshot returns what is shown of each service port by itself, and the rest. Syncs wait for it, so it makes no
// metrics.
func (c *connMetrics) snapshot() (own []shown, together rests) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.ports {
		if one := c.settle(p, together.of(p.name.Protocol)); one.labels != nil {
			own = append(own, one)
		}
	}
	for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
		r := together.of(protocol)
		r.add(c.past.of(protocol))
		c.late.addTo(&r.own, protocol)
	}
	return own, together
}

// settle gives a service port and its endpoints the places that are left. It returns what is shown of it by itself, and
// adds what is not to the rest. The connections of the service port wait for it.
func (c *connMetrics) settle(p *portCounts, all *rest) (out shown) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timings == nil {
		return shown{} // no record
	}
	out.labels = []string{p.label, p.name.Protocol.String()}
	out.counts = c.settleCounts(p, all)
	out.timings = c.settleTimings(p, all)
	out.endpoints = c.settleEndpoints(p, all)
	return out
}

func (c *connMetrics) settleCounts(p *portCounts, all *rest) *counts {
	if c.isOwn(p) {
		return p.counts.clone()
	}
	all.counts.add(&p.counts)
	return nil
}

// isOwn tells whether a service port has counters of its own, which it gets if there is a place. Counts that were
// exported in "other" stay there, and are in its own series too: Totals are since the start.
func (c *connMetrics) isOwn(p *portCounts) bool {
	if p.asService.settle(&c.services, p.name.Namespace) {
		c.past.of(p.name.Protocol).counts.add(&p.counts)
	}
	return p.asService.own
}

func (c *connMetrics) settleTimings(p *portCounts, all *rest) *timings {
	if p.asHistogram.settle(&c.histograms, p.name.Namespace) {
		c.past.of(p.name.Protocol).timings.add(p.timings)
		*p.timings = timings{}
	}
	if all.keep(p.timings, !p.asHistogram.own); !p.asHistogram.own {
		return nil
	}
	now := *p.timings
	return &now
}

// settleEndpoints leaves out endpoints of which no sync has told yet.
func (c *connMetrics) settleEndpoints(p *portCounts, all *rest) (out []shownEndpoint) {
	listed, known := c.listed[p.name]
	if !known {
		return nil
	}
	c.prune(p)
	for at, e := range p.endpoints {
		if e.settle(&c.endpoints, p.name.Namespace) {
			c.past.of(p.name.Protocol).endpoints.add(&e.endpointCounts)
			e.endpointCounts = endpointCounts{}
		}
		if !e.own {
			all.endpoints.add(&e.endpointCounts)
			continue
		}
		e.pod, _ = podAt(listed, at)
		out = append(out, shownEndpoint{e.endpointCounts, at.String(), e.pod})
	}
	return out
}

// prune drops endpoints that are no longer listed, or have another pod now.
func (c *connMetrics) prune(p *portCounts) {
	listed, known := c.listed[p.name]
	for at, e := range p.endpoints {
		if pod, there := podAt(listed, at); known && (!there || e.own && e.pod != pod) {
			c.dropEndpoint(p, at, e)
		}
	}
}

func (c *connMetrics) dropEndpoint(p *portCounts, at netip.AddrPort, e *endpoint) {
	if e.leave(&c.endpoints, p.name.Namespace) {
		c.past.of(p.name.Protocol).endpoints.add(&e.endpointCounts)
	}
	delete(p.endpoints, at)
}

// podAt is the pod of an endpoint, of a list that is sorted by address.
func podAt(listed []service.Endpoint, at netip.AddrPort) (pod string, there bool) {
	byAddr := func(e service.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) }
	i, there := slices.BinarySearchFunc(listed, at, byAddr)
	if there {
		pod = podLabel(listed[i].Pod)
	}
	return pod, there
}

// podLabel takes what somebody wrote into an EndpointSlice, where nothing checks it: Prometheus takes no broken UTF-8,
// its graphs go to browsers and terminals, and it should not get more than names of Kubernetes are long.
func podLabel(pod string) string {
	const longest = 63 + len("/") + 253
	return printable.Text(pod[:min(len(pod), longest)])
}

// keep adds histograms: to those that are shown together, or to those that have been shown by themselves.
func (r *rest) keep(t *timings, together bool) {
	if together {
		r.timings.add(t)
	} else {
		r.own.add(t)
	}
}

func (r *rest) add(o *rest) {
	r.counts.add(&o.counts)
	r.endpoints.add(&o.endpoints)
	r.timings.add(&o.timings)
	r.own.add(&o.own)
}

// shownAs is the label of a service port: its own as far as there are places.
func (c *connMetrics) shownAs(name service.PortName) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.ports[name]
	if p == nil {
		return other
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.isOwn(p) {
		return p.label
	}
	return other
}
