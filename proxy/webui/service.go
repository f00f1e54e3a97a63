package webui

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// mostEndpoints bounds the endpoints that are shown of a service port, those with failures and connections first.
const mostEndpoints = 200

// Service is the page of one service port.
type Service struct {
	Status    *ServiceStatus `json:"status"` // null: no node has it any more
	Nodes     []NodeService  `json:"nodes"`
	Endpoints []*EndpointRow `json:"endpoints"`
	Total     int            `json:"total"` // endpoints
	Away      []Away         `json:"away"`
}

// NodeService is what one node tells of it.
type NodeService struct {
	Node      string                 `json:"portald_node"`
	Mode      string                 `json:"mode"`
	ModeFrom  string                 `json:"mode_from"`
	Usable    int                    `json:"usable"`
	Open      *int                   `json:"open"`
	Frontends []adminsocket.Frontend `json:"frontends"`
	Problems  []string               `json:"problems"`
	Refused   *uint64                `json:"refused_packets"`
}

// EndpointRow is an endpoint, as each node knows it.
type EndpointRow struct {
	Address netip.AddrPort `json:"address"`
	Pod     string         `json:"pod"`
	Node    string         `json:"node"`
	Zone    string         `json:"zone"`
	// Of all nodes; null where none knows it.
	Open     *int    `json:"open"`
	Dials    *uint64 `json:"dials"`
	Failures *uint64 `json:"failures"`
	// Quantiles of what all nodes have measured lately, null where none has.
	DialP99ms      *float64 `json:"dial_p99_ms"`
	FirstByteP50ms *float64 `json:"first_byte_p50_ms"`
	FirstByteP99ms *float64 `json:"first_byte_p99_ms"`
	// On is what each node tells, in no order.
	On []EndpointOn `json:"on"`

	dials, firstBytes *adminsocket.Histogram
}

// EndpointOn is an endpoint as one node knows it.
type EndpointOn struct {
	PortaldNode string `json:"portald_node"`
	adminsocket.Endpoint
}

// told is what one node tells of a service port.
type told struct {
	services  []adminsocket.Service
	endpoints []adminsocket.Endpoint
}

var errNoService = errors.New("service: say which, as namespace/name:port")

// service is the page of one service port.
func (c *cluster) service(ctx context.Context, query url.Values) (any, error) {
	name, protocol := query.Get("name"), query.Get("protocol")
	if name == "" {
		return nil, errNoService
	}
	nodes, away := c.here()
	q := adminsocket.ServiceQuery{Services: []string{exactly(name)}}
	answers, silent := apart(ask(ctx, c.limit, nodes, func(
		ctx context.Context, client *adminsocket.Client,
	) (t told, err error) {
		if t.services, err = client.Services(ctx, q); err == nil {
			t.endpoints, err = client.Endpoints(ctx, adminsocket.EndpointQuery{ServiceQuery: q})
		}
		return t, err
	}))
	out := Service{Status: c.statusOf(key{name, protocol}), Nodes: []NodeService{}, Away: append(away, silent...)}
	for _, a := range answers {
		for _, s := range a.it.services {
			if s.Name == name && s.Protocol == protocol {
				out.Nodes = append(out.Nodes, NodeService{a.node, s.Mode, s.ModeFrom, s.Usable, s.Open, s.Frontends,
					s.Problems, s.RefusedPackets})
			}
		}
	}
	out.Endpoints = merged(answers, name, protocol)
	if out.Total = len(out.Endpoints); out.Total > mostEndpoints {
		out.Endpoints = out.Endpoints[:mostEndpoints]
	}
	return out, nil
}

func (c *cluster) statusOf(k key) *ServiceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rows[k]
	if r == nil {
		return nil
	}
	return c.status(r, time.Now())
}

// merged puts what nodes tell of the same endpoint into one row: first what fails, then what is used.
func merged(answers []answer[told], name, protocol string) []*EndpointRow {
	rows := map[netip.AddrPort]*EndpointRow{}
	for _, a := range answers {
		for _, e := range a.it.endpoints {
			if e.Service != name || e.Protocol != protocol {
				continue
			}
			r := rows[e.Address]
			if r == nil {
				r = &EndpointRow{Address: e.Address}
				rows[e.Address] = r
			}
			r.take(a.node, e)
		}
	}
	out := make([]*EndpointRow, 0, len(rows))
	for _, r := range rows {
		r.setQuantiles()
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *EndpointRow) int {
		return cmp.Or(cmp.Compare(*cmp.Or(b.Failures, new(uint64)), *cmp.Or(a.Failures, new(uint64))),
			cmp.Compare(*cmp.Or(b.Open, new(int)), *cmp.Or(a.Open, new(int))), a.Address.Compare(b.Address))
	})
	return out
}

func (r *EndpointRow) take(node string, e adminsocket.Endpoint) {
	r.Pod, r.Node, r.Zone = cmp.Or(r.Pod, e.Pod), cmp.Or(r.Node, e.Node), cmp.Or(r.Zone, e.Zone)
	if e.Open != nil {
		r.Open = addUp(r.Open, *e.Open)
	}
	if e.Dials != nil {
		r.Dials = addUp(r.Dials, *e.Dials)
	}
	if e.Failures != nil {
		r.Failures = addUp(r.Failures, *e.Failures)
	}
	r.dials = adminsocket.AddUp(r.dials, e.DialTimes)
	r.firstBytes = adminsocket.AddUp(r.firstBytes, e.FirstByteTimes)
	e.DialTimes, e.FirstByteTimes = nil, nil // the page needs their quantiles alone
	r.On = append(r.On, EndpointOn{node, e})
}

// setQuantiles makes quantiles of all nodes of their counts: a mean of quantiles would be none. Nodes of a version
// without counts have the longest ones stand for all.
func (r *EndpointRow) setQuantiles() {
	for _, of := range []struct {
		to    **float64
		times *adminsocket.Histogram
		part  float64
		own   func(*adminsocket.Endpoint) *float64
	}{
		{&r.DialP99ms, r.dials, 0.99, func(e *adminsocket.Endpoint) *float64 { return e.DialP99ms }},
		{&r.FirstByteP50ms, r.firstBytes, 0.5, func(e *adminsocket.Endpoint) *float64 { return e.FirstByteP50ms }},
		{&r.FirstByteP99ms, r.firstBytes, 0.99, func(e *adminsocket.Endpoint) *float64 { return e.FirstByteP99ms }},
	} {
		if of.times != nil {
			*of.to = of.times.Quantile(of.part)
			continue
		}
		for i := range r.On {
			if ms := of.own(&r.On[i].Endpoint); ms != nil && (*of.to == nil || *ms > **of.to) {
				*of.to = ms
			}
		}
	}
}
