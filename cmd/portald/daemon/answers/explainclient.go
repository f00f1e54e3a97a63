package answers

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// removed finds the service ports of an endpoint that is none any more, by connections that it has or had.
func (x *Explainer) removed(q explain.Query) (explain.Query, []*service.Port) {
	q, names := explain.FindRemoved(q, func(yield func(service.PortName, service.Endpoint) bool) {
		for l := range x.facts.Core.All() {
			if l.Endpoint.Addr.IsValid() && !yield(l.Service, l.Endpoint) {
				return
			}
		}
		for _, r := range x.facts.Records.Last(connlog.DefaultStream, nil) {
			if r.Endpoint.Addr.IsValid() && !yield(r.Service, r.Endpoint) {
				return
			}
		}
	})
	var found []*service.Port
	for _, name := range names {
		p := x.facts.Inventory.Store.Port(name)
		if p == nil { // its Service is gone as well
			p = &service.Port{Name: name}
		}
		found = append(found, p)
	}
	return q, found
}

// client is the report about a client, nil if the query is about none that is known.
func (x *Explainer) client(ctx context.Context, q explain.Query, ports []*service.Port) *explain.Report {
	may, said := q.IsClient()
	if !may {
		return nil
	}
	c := &explain.Client{Records: x.facts.Records.Last(lastRecords, func(r *record.Record) bool {
		return q.OfClient(r.Client, r.ClientPod)
	})}
	addresses := map[netip.Addr]bool{}
	for _, r := range c.Records {
		addresses[r.Client.Addr().Unmap()] = true
	}
	for l := range x.facts.Core.All() {
		switch {
		case !q.OfClient(l.Client, l.ClientPod):
		case len(c.Live) < mostLive:
			c.Live = append(c.Live, *l)
			addresses[l.Client.Addr().Unmap()] = true
		default:
			c.MoreLive++
		}
	}
	if q.Address.IsValid() {
		addresses[q.Address.Addr()] = true
	}
	x.bindings(c, addresses, ports)
	x.limits(c)
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	if x.facts.Config.Writer != writers.Netsh {
		x.flowsOf(ctx, c, q, addresses, ports)
	}
	if !said && !c.Known() {
		return nil
	}
	return explain.ExplainClient(q, x.node(), c, time.Now())
}

// bindings are the endpoints that affinity binds a client to.
func (x *Explainer) bindings(c *explain.Client, addresses map[netip.Addr]bool, ports []*service.Port) {
	for _, p := range ports {
		if p.Affinity == 0 {
			continue
		}
		bound := x.facts.Inventory.Listeners.Fronts().Bound(p.Name)
		if bound == nil {
			continue
		}
		for a := range addresses {
			for _, scope := range []service.Scope{service.ClusterScope, service.NodeScope} {
				at, ok := bound(scope, a)
				b := explain.Binding{Service: p.Name, Endpoint: at}
				if ok && !slices.Contains(c.Bound, b) {
					c.Bound = append(c.Bound, b)
				}
			}
		}
	}
}

// limits are how many connections the client has of those that one may have.
func (x *Explainer) limits(c *explain.Client) {
	open := map[service.PortName]int{}
	for i := range c.Live {
		open[c.Live[i].Service]++
	}
	for name, n := range open {
		p := x.facts.Inventory.Store.Port(name)
		if p == nil {
			continue
		}
		if most := p.Policy.Or(x.facts.Settings.Load().Policy).Shares.MaxConnectionsPerClient; most > 0 {
			c.Limits = append(c.Limits, explain.ClientLimit{Service: name, Open: n, Most: most})
		}
	}
	slices.SortFunc(c.Limits, func(a, b explain.ClientLimit) int { return a.Service.Compare(b.Service) })
}

// flowsOf adds the client's entries of the conntrack table that lead to frontends.
func (x *Explainer) flowsOf(
	ctx context.Context, c *explain.Client, q explain.Query, addresses map[netip.Addr]bool, ports []*service.Port,
) {
	frontends := map[service.Frontend]bool{}
	for _, p := range ports {
		for _, e := range p.Exposures {
			frontends[e.Frontend] = true
		}
	}
	c.FlowsErr = x.facts.ListFlows(ctx, func(raw []byte) bool {
		f, ok := flows.Parse(raw)
		if !ok || !addresses[f.From.Addr()] || q.Address.Port() != 0 && q.Address.Port() != f.From.Port() {
			return true
		}
		everywhere := netip.AddrPortFrom(inet.FamilyOf(f.To.Addr()).Unspecified(), f.To.Port())
		node := service.Frontend{Protocol: f.Protocol, Addr: everywhere}
		at := service.Frontend{Protocol: f.Protocol, Addr: f.To}
		if frontends[at] || frontends[node] && x.facts.Host.Addresses.Contains(f.To.Addr()) {
			c.Flows = append(c.Flows, f)
		}
		return len(c.Flows) < mostFlows
	})
}
