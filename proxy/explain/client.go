package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// Client has what is known of a client.
type Client struct {
	Live     []record.Live // open in userspace mode
	MoreLive int           // not in Live
	Records  []*record.Record
	Bound    []Binding
	Limits   []ClientLimit
	Flows    []flows.Flow // in the kernel's conntrack table
	FlowsErr error
}

// Binding is an endpoint that affinity binds a client to.
type Binding struct {
	Service  service.PortName
	Endpoint netip.AddrPort
}

// ClientLimit is how many connections of a service port the client has, of those that one may have.
type ClientLimit struct {
	Service    service.PortName
	Open, Most int
}

// Known tells whether anything is.
func (c *Client) Known() bool {
	return len(c.Live)+len(c.Records)+len(c.Bound)+len(c.Flows) > 0
}

// IsClient tells whether the query may be about a client, and whether that was said.
func (q *Query) IsClient() (may, said bool) {
	said = q.kind == kindClient
	return said || q.kind == "" && q.Address.IsValid() || q.kind == kindPod, said
}

// OfClient tells whether a client is the one that was asked for, by its address or its pod.
func (q *Query) OfClient(address netip.AddrPort, pod string) bool {
	address = netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
	if q.Address.IsValid() {
		return at(q.Address, address)
	}
	return pod != "" && q.names(pod)
}

// ExplainClient reports on a client.
func ExplainClient(query Query, node Node, client *Client, now time.Time) *Report {
	b := &builder{report: &Report{What: query.What, Node: node.Name, Time: now}}
	c := clientReport{b, client, now, strings.TrimPrefix(query.What, kindClient+"/")}
	if client.Known() {
		c.open()
		c.ended()
		c.bound()
		c.flows()
		c.well()
	}
	b.conclude(0)
	return b.report
}

// clientReport is a client on its way into the report.
type clientReport struct {
	*builder
	*Client
	now  time.Time
	what string
}

// well is the verdict where nothing else is found.
func (c *clientReport) well() {
	removed := 0
	for i := range c.Live {
		if c.Live[i].Removed {
			removed++
		}
	}
	if removed > 0 {
		c.find(Doubt, "portald conns --endpoint-state removed", "%s has %s to endpoints that are none any more, until a "+
			"side closes.", c.what, count(removed, "open connection"))
	}
	failed := 0
	for _, r := range c.Records {
		if !r.Outcome.Well() {
			failed++
		}
	}
	open := len(c.Live) + c.MoreLive
	c.find(Good, "portald conns --ip "+c.address(), "%s has %s through portald, and %d of its last %s failed.", c.what,
		count(open, "open connection"), failed, count(len(c.Records), "connection"))
}

// address is the client's, as a filter of commands takes it.
func (c *clientReport) address() string {
	for i := range c.Live {
		return c.Live[i].Client.Addr().Unmap().String()
	}
	for _, r := range c.Records {
		return r.Client.Addr().Unmap().String()
	}
	return c.what
}

// open are the open connections.
func (c *clientReport) open() {
	c.section("Open connections")
	if len(c.Live) == 0 {
		c.add(Fact, nil, "none that portald carries")
		return
	}
	slices.SortFunc(c.Live, func(a, b record.Live) int { return a.Start.Compare(b.Start) })
	for i := range c.Live[:min(mostListed, len(c.Live))] {
		l := &c.Live[i]
		status := Good
		endpoint := "no endpoint yet"
		if l.Endpoint.Addr.IsValid() {
			endpoint = l.Endpoint.Addr.String() + behind(l.Endpoint.Pod)
		}
		if l.Removed {
			status, endpoint = Doubt, endpoint+", which is no endpoint any more"
		}
		c.add(status, nil, "id %d, port %d to %s, %s: %s for %s, %d bytes up, %d down", l.ID, l.Client.Port(),
			l.Service.Label(), endpoint, l.State, roughly(c.now.Sub(l.Start)), l.BytesFromClient, l.BytesFromEndpoint)
	}
	if n := len(c.Live) + c.MoreLive - mostListed; n > 0 {
		c.add(Fact, nil, "and %d more", n)
	}
	for _, l := range c.Limits {
		status := Good
		if l.Open >= l.Most {
			status = Doubt
			c.find(Doubt, "portald conns --service "+l.Service.Service().String(),
				"%s has as many connections to %s as a client may, %d: new ones are refused.", c.what, l.Service.Label(), l.Most)
		}
		c.add(status, nil, "%d of at most %d of one client to %s", l.Open, l.Most, l.Service.Label())
	}
}

// endTally is how the last connections to one service port ended.
type endTally struct {
	to     service.PortName
	n      int
	failed int
	last   *record.Record // of those
}

// ended are the last connections.
func (c *clientReport) ended() {
	c.section("Last connections")
	if len(c.Records) == 0 {
		c.add(Fact, nil, "no record of one is in memory")
		return
	}
	var all []*endTally
	of := map[service.PortName]*endTally{}
	for _, r := range c.Records {
		if c.now.Sub(r.Start.Add(r.Duration)) > recentTime {
			continue
		}
		t := of[r.Service]
		if t == nil {
			t = &endTally{to: r.Service}
			of[r.Service], all = t, append(all, t)
		}
		if t.n++; !r.Outcome.Well() {
			t.failed++
			t.last = r
		}
	}
	for _, r := range c.Records[max(0, len(c.Records)-mostListed):] {
		status := Good
		if !r.Outcome.Well() {
			status = Doubt
		}
		c.add(status, attempts(r), "%s: %s", r.Service.Label(), recordText(r, c.now))
	}
	slices.SortStableFunc(all, func(a, b *endTally) int { return b.failed - a.failed })
	for _, t := range all {
		c.service(t)
	}
}

// service says how connections to one service port ended.
func (c *clientReport) service(t *endTally) {
	if t.failed == 0 {
		c.add(Good, nil, "%s: %s, none failed", t.to.Label(), count(t.n, "connection"))
		return
	}
	c.add(Doubt, nil, "%s: %s, %d failed", t.to.Label(), count(t.n, "connection"), t.failed)
	if t.failed < enough || t.failed*oneIn < t.n {
		return
	}
	did := fmt.Sprintf("failed, the last one as %s%s", t.last.Outcome, behind(t.last.Error))
	if why, refused := refusalTexts[t.last.Outcome]; refused {
		did = fmt.Sprintf("failed; the last one was refused: %s", why)
	}
	c.find(Doubt, "portald explain "+t.to.Label()+" --from "+t.last.Client.Addr().Unmap().String(),
		"%d of the last %s of %s to %s %s.", t.failed, count(t.n, "connection"), c.what, t.to.Label(), did)
}

// bound are the endpoints that affinity binds the client to.
func (c *clientReport) bound() {
	if len(c.Bound) == 0 {
		return
	}
	c.section("Affinity")
	for _, b := range c.Bound {
		c.add(Fact, nil, "%s: bound to %s", b.Service.Label(), b.Endpoint)
	}
}

// flows are its entries of the conntrack table.
func (c *clientReport) flows() {
	if len(c.Flows) == 0 && c.FlowsErr == nil {
		return
	}
	c.section("Connection tracking")
	if c.FlowsErr != nil {
		c.add(Doubt, nil, "not read: %v", c.FlowsErr)
	}
	for _, f := range c.Flows[:min(mostFlows, len(c.Flows))] {
		status := Fact
		if f.Status&flows.SeenReply == 0 {
			status = Doubt
		}
		c.add(status, nil, "%s", flowText(f, ""))
	}
	if n := len(c.Flows) - mostFlows; n > 0 {
		c.add(Fact, nil, "and %d more", n)
	}
}
