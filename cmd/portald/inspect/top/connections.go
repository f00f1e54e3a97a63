package top

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminsocket"
)

type connRow = row[adminsocket.Connection]

// mostConnections is how many connections are listed: a screen has no room for more, and the daemon is asked each
// second.
const mostConnections = 500

// scope is whose connections a page shows.
type scope struct {
	service, protocol string // empty: all
	endpoint          netip.AddrPort
}

func ofService(name, protocol string) scope { return scope{service: name, protocol: protocol} }

func (c scope) at(endpoint netip.AddrPort) scope {
	c.endpoint = endpoint
	return c
}

func (c scope) title() string {
	switch {
	case c.endpoint.IsValid():
		return "connections of " + c.endpoint.String()
	case c.service != "":
		return "connections of " + inspect.Text(c.service)
	}
	return "connections"
}

func (c scope) query() (q adminsocket.ConnectionQuery) {
	if c.service != "" {
		q.Services, q.Protocols = []string{c.service}, []string{c.protocol}
	}
	if c.endpoint.IsValid() {
		q.Endpoints = []string{c.endpoint.String()}
	}
	return q
}

// newConnections is the page of open connections.
func newConnections(s *screen, of scope) *list[adminsocket.Connection] {
	l := &list[adminsocket.Connection]{
		screen: s, title: of.title(), keys: "Enter details  c cut", columns: connColumns(), sorted: 9,
		id: connKey,
		counts: func(c *adminsocket.Connection) []uint64 {
			return []uint64{uint64(c.BytesFromClient), uint64(c.BytesFromEndpoint)}
		},
		matches: func(c *adminsocket.Connection, filter string) bool {
			prefix, err := prefixOf(filter)
			q := adminsocket.ConnectionQuery{IPs: []netip.Prefix{prefix}}
			return err == nil && q.Match(c, time.Now())
		},
		open:    func(c *adminsocket.Connection) { s.enter(newConnection(s, c)) },
		actions: map[rune]func(*adminsocket.Connection){'c': s.cut},
	}
	l.fetch = func(ctx context.Context, w listRequest) ([]adminsocket.Connection, error) {
		q := of.query()
		q.Sort, q.Limit, q.TCP = orderBy(w.sorted), mostConnections, w.sorted == columnRTT
		if prefix, err := prefixOf(w.filter); err == nil {
			q.IPs = []netip.Prefix{prefix}
		}
		return s.client.Connections(ctx, q)
	}
	return newList(l)
}

// connKey tells connections apart; the kernel's have no id while they are open.
func connKey(c *adminsocket.Connection) string {
	return fmt.Sprint(c.ID, c.Protocol, c.Client, c.OriginalDst)
}

// prefixOf is the address or CIDR that a filter is: the daemon looks for that, since the list may not have all.
func prefixOf(filter string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(filter); err == nil {
		return a.Prefix(a.BitLen())
	}
	return netip.ParsePrefix(filter)
}

// The columns that the daemon can sort by; by others, what is listed is sorted.
const (
	columnAge  = "AGE"
	columnIdle = "IDLE"
	columnRTT  = "RTT"
)

func orderBy(column string) adminsocket.Order {
	switch column {
	case columnAge:
		return adminsocket.ByAge
	case columnIdle:
		return adminsocket.ByIdle
	case columnRTT:
		return adminsocket.ByRTT
	}
	return adminsocket.ByBytes
}

func connColumns() []column[adminsocket.Connection] {
	type r = *connRow
	return []column[adminsocket.Connection]{
		{name: "ID", text: func(r r) string { return inspect.ID(r.now.ID) },
			value: func(r r) float64 { return float64(r.now.ID) }},
		{name: "SERVICE", text: func(r r) string { return inspect.Text(r.now.Service) }},
		{name: "CLIENT", text: func(r r) string { return withPod(r.now.Client, r.now.ClientPod) }},
		{name: "ENDPOINT", text: func(r r) string { return withPod(r.now.Endpoint, r.now.Pod) }},
		{name: "STATE", text: func(r r) string { return inspect.Text(r.now.State) }, paint: paintState},
		age(columnAge, func(c *adminsocket.Connection) time.Time { return c.Start }),
		age(columnIdle, func(c *adminsocket.Connection) time.Time { return c.LastMoved }),
		size("UP", func(c *adminsocket.Connection) int64 { return c.BytesFromClient }),
		rate[adminsocket.Connection]("UP/S", rateUp, bytesPerSecond),
		size("DOWN", func(c *adminsocket.Connection) int64 { return c.BytesFromEndpoint }),
		rate[adminsocket.Connection]("DOWN/S", rateDown, bytesPerSecond),
		{name: columnRTT, text: rttText, value: rtt},
	}
}

// withPod is an address, and the pod that has it.
func withPod(a netip.AddrPort, pod string) string {
	if pod == "" {
		return inspect.Address(a)
	}
	return inspect.Address(a) + " " + inspect.Text(pod)
}

func age(name string, since func(*adminsocket.Connection) time.Time) column[adminsocket.Connection] {
	return column[adminsocket.Connection]{
		name:  name,
		text:  func(r *connRow) string { return inspect.Age(time.Now(), since(&r.now)) },
		value: func(r *connRow) float64 { return -float64(since(&r.now).UnixMilli()) },
	}
}

// rtt is the larger one of both sides in milliseconds, -1 while it is not asked for.
func rtt(r *connRow) float64 {
	out := -1.0
	for _, t := range []*adminsocket.TCP{r.now.ClientTCP, r.now.EndpointTCP} {
		if t != nil {
			out = max(out, t.RTTms)
		}
	}
	return out
}

func rttText(r *connRow) string {
	ms := rtt(r)
	if ms < 0 {
		return "-"
	}
	return inspect.Millis(&ms)
}

func paintState(r *connRow) meaning {
	switch r.now.State {
	case "dialing", "waiting":
		return warn
	case "half_closed", "delivering":
		return faint
	}
	return plain
}

// cut asks, then ends a connection by force.
func (s *screen) cut(c *adminsocket.Connection) {
	if c.ID == 0 {
		s.notice = s.colors.tag(warn, " The kernel carries it: portald cannot cut it")
		return
	}
	id := c.ID
	prompt := fmt.Sprintf("Cut connection %d of %s from %s?", id, inspect.Text(c.Service), c.Client)
	s.confirm(prompt, func(ctx context.Context) (string, error) {
		answer, err := s.client.Cut(ctx, id)
		switch {
		case err != nil:
			return "", err
		case !slices.Contains(answer.Cut, id):
			return fmt.Sprintf("Connection %d had ended", id), nil
		}
		return fmt.Sprintf("Connection %d was cut", id), nil
	})
}

// details are the lines of one connection.
func details(c *adminsocket.Connection) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, " %-14s %s\n", name, value) }
	now := time.Now()
	line("service", inspect.Text(c.Service)+"/"+inspect.Text(c.Protocol))
	line("carried by", inspect.Text(cmp.Or(c.CarriedBy, "userspace")))
	line("state", inspect.Text(c.State))
	line("client", withPod(c.Client, c.ClientPod)+onNode(c.ClientNode))
	line("dialled", inspect.Address(c.OriginalDst)+", "+inspect.Text(c.Portal))
	line("proxy", inspect.Address(c.Proxy))
	line("endpoint", withPod(c.Endpoint, c.Pod)+onNode(c.Node))
	line("dials", fmt.Sprint(c.Attempts))
	line("open for", inspect.Age(now, c.Start))
	line("idle for", inspect.Age(now, c.LastMoved))
	line("from client", inspect.Size(c.BytesFromClient)+" read, "+inspect.Size(c.BytesToEndpoint)+" sent on")
	line("from endpoint", inspect.Size(c.BytesFromEndpoint)+" read, "+inspect.Size(c.BytesToClient)+" sent on")
	line("client TCP", tcpText(c.ClientTCP))
	line("endpoint TCP", tcpText(c.EndpointTCP))
	return b.String()
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " on " + inspect.Text(node)
}

func tcpText(t *adminsocket.TCP) string {
	if t == nil {
		return "-"
	}
	return fmt.Sprintf("rtt %s ± %s, %s retransmitted, %d lost now, %s/s", inspect.Millis(&t.RTTms),
		inspect.Millis(&t.RTTVarms), plural(int(t.Retransmits), "segment"), t.Lost, inspect.Size(int64(t.DeliveryRate)))
}
