package webui

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// Connections is the page of open connections.
type Connections struct {
	Now         time.Time                 `json:"now"`
	Connections []*adminsocket.Connection `json:"connections"`
	Limit       int                       `json:"limit"` // there may be more, if there are so many
	Away        []Away                    `json:"away"`
}

// connections lists open connections: the first ones of each node in the order of the query, merged.
func (c *cluster) connections(ctx context.Context, query url.Values) (any, error) {
	q := connectionQuery(query)
	nodes, away := c.here()
	answers, silent := apart(ask(ctx, c.limit, nodes,
		func(ctx context.Context, client *adminsocket.Client) ([]adminsocket.Connection, error) {
			return client.Connections(ctx, q)
		}))
	out := Connections{Now: time.Now().UTC(), Connections: []*adminsocket.Connection{}, Limit: q.Limit,
		Away: append(away, silent...)}
	for _, a := range answers {
		for i := range a.it {
			a.it[i].PortaldNode = a.node
			out.Connections = append(out.Connections, &a.it[i])
		}
	}
	sortConnections(out.Connections, q.Sort)
	out.Connections = out.Connections[:min(len(out.Connections), q.Limit)]
	return out, nil
}

// connectionQuery reads what the page asks for: q is an address, a CIDR, or a part of a Service's name.
func connectionQuery(query url.Values) adminsocket.ConnectionQuery {
	q := adminsocket.ConnectionQuery{Sort: adminsocket.Order(query.Get("sort")), Limit: mostShown, TCP: true}
	if !slices.Contains(adminsocket.Orders(), q.Sort) {
		q.Sort = adminsocket.ByBytes
	}
	if s := query.Get("service"); s != "" {
		q.Services = []string{exactly(s)}
	}
	if p := query.Get("protocol"); p != "" {
		q.Protocols = []string{p}
	}
	if e := query.Get("endpoint"); e != "" {
		q.Endpoints = []string{exactly(e)}
	}
	text := strings.TrimSpace(query.Get("q"))
	if at, err := netip.ParseAddrPort(text); err == nil {
		q.IPs, q.Ports = []netip.Prefix{netip.PrefixFrom(at.Addr(), at.Addr().BitLen())}, []uint16{at.Port()}
	} else if prefix, is := prefixOf(text); is {
		q.IPs = []netip.Prefix{prefix}
	} else if pod, is := strings.CutPrefix(text, "pod/"); is {
		q.Pods = []string{exactly(pod)}
	} else if text != "" && len(q.Services) == 0 {
		q.Services = []string{partOf(text)}
	}
	return q
}

// sortConnections sorts what comes sorted from each node.
func sortConnections(all []*adminsocket.Connection, by adminsocket.Order) {
	type row = *adminsocket.Connection
	compare := map[adminsocket.Order]func(a, b row) int{
		adminsocket.ByBytes: func(a, b row) int {
			return cmp.Compare(b.BytesFromClient+b.BytesFromEndpoint, a.BytesFromClient+a.BytesFromEndpoint)
		},
		adminsocket.ByAge:  func(a, b row) int { return a.Start.Compare(b.Start) },
		adminsocket.ByIdle: func(a, b row) int { return a.LastMoved.Compare(b.LastMoved) },
		adminsocket.ByRTT:  func(a, b row) int { return cmp.Compare(rtt(b), rtt(a)) },
	}[by]
	slices.SortStableFunc(all, compare)
}

// rtt is the larger one of both sides.
func rtt(c *adminsocket.Connection) (ms float64) {
	for _, t := range []*adminsocket.TCP{c.ClientTCP, c.EndpointTCP} {
		if t != nil {
			ms = max(ms, t.RTTms)
		}
	}
	return ms
}
