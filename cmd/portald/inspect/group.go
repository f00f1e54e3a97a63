package inspect

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// What connections and records are grouped by.
const (
	byClient    = "client"
	byPod       = "pod"
	byService   = "service"
	byNode      = "node"
	byNamespace = "namespace"
	byOutcome   = "outcome"
)

// addGroupBy gives a command the flag by which groups are printed in the place of rows.
func addGroupBy(cmd *cobra.Command, more string) *choice {
	c := &choice{among: []string{byClient, byPod, byService, byNode, byNamespace, byOutcome}}
	addChoice(cmd, c, "group-by", "", "print a line for each `WHAT`, the one with the most first: "+list(c.among)+
		"; pod and node are the endpoint's, and pod also that of the last dial that failed: its address, if the pod is not "+
		"known"+more)
	return c
}

// grouped sums up connections, or records, that have something in common.
type grouped struct {
	Name      string `json:"group"`
	ClientPod string `json:"client_pod,omitempty"` // of a client, where that is known
	Count     int    `json:"count"`
	Failed    int    `json:"failed"` // of records; of open connections the dials that failed
	BytesUp   int64  `json:"bytes_up"`
	BytesDown int64  `json:"bytes_down"`

	// How long they lasted; of open connections their age.
	DurationP50MS *float64 `json:"duration_p50_ms"`
	DurationP99MS *float64 `json:"duration_p99_ms"`
	// How long it took until an endpoint was connected, of records.
	ConnectP50MS *float64 `json:"connect_p50_ms"`
	ConnectP99MS *float64 `json:"connect_p99_ms"`

	durations, connects []float64
}

// groups makes groups of what is added.
type groups struct {
	by  string
	all map[[2]string]*grouped
	at  podsAt
}

func newGroups(by string) *groups { return &groups{by, map[[2]string]*grouped{}, podsAt{}} }

// member is what groups need to know of a connection or record.
type member struct {
	client, clientPod, pod, service, node, outcome string
	endpoint                                       netip.AddrPort // the last that was dialled
}

func (g *groups) of(m *member) *grouped {
	key := [2]string{}
	switch g.by {
	case byClient:
		key = [2]string{m.client, m.clientPod}
	case byPod:
		if key[0] = m.pod; m.pod == "" && m.endpoint.IsValid() {
			key[1] = m.endpoint.String()
		}
		g.at.learn(m.endpoint, m.pod)
	case byService:
		key[0] = m.service
	case byNode:
		key[0] = m.node
	case byNamespace:
		key[0], _, _ = strings.Cut(m.service, "/")
	case byOutcome:
		key[0] = m.outcome
	}
	one := g.all[key]
	if one == nil {
		one = &grouped{Name: key[0]}
		if g.by == byClient {
			one.ClientPod = key[1]
		}
		g.all[key] = one
	}
	return one
}

// addOpen adds an open connection. Its state stands for an outcome.
func (g *groups) addOpen(c *adminsocket.Connection, now time.Time) {
	one := g.of(&member{c.Client.Addr().String(), c.ClientPod, c.Pod, c.Service, c.Node, c.State, c.Endpoint})
	one.Count++
	one.Failed += max(0, c.Attempts-1)
	one.BytesUp += c.BytesFromClient
	one.BytesDown += c.BytesFromEndpoint
	if !c.Start.IsZero() {
		one.durations = append(one.durations, float64(now.Sub(c.Start))/float64(time.Millisecond))
	}
}

// addRecord adds a record of a connection that has ended, as often as a sample stands for.
func (g *groups) addRecord(l *connlog.Line) {
	if l.Outcome == "" {
		return
	}
	one := g.of(&member{l.Client.Addr().String(), l.ClientPod, l.Pod, l.Service, l.Node, string(l.Outcome), dialled(l)})
	n := max(1, l.Sample)
	one.Count += n
	if !l.Outcome.Well() {
		one.Failed += n
	}
	one.BytesUp += int64(n) * l.BytesFromClient
	one.BytesDown += int64(n) * l.BytesFromEndpoint
	one.durations = append(one.durations, l.DurationMS)
	if l.ConnectMS != nil {
		one.connects = append(one.connects, *l.ConnectMS)
	}
}

// rows returns the groups, the one with the most first, at most so many unless most is 0.
func (g *groups) rows(most int) []grouped {
	g.namePods()
	rows := make([]grouped, 0, len(g.all))
	for _, one := range g.all {
		rows = append(rows, *one)
	}
	slices.SortFunc(rows, func(a, b grouped) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ClientPod, b.ClientPod))
	})
	if most > 0 {
		rows = rows[:min(most, len(rows))]
	}
	for i := range rows {
		r := &rows[i]
		slices.Sort(r.durations)
		slices.Sort(r.connects)
		r.DurationP50MS, r.DurationP99MS = quantile(r.durations, 0.5), quantile(r.durations, 0.99)
		r.ConnectP50MS, r.ConnectP99MS = quantile(r.connects, 0.5), quantile(r.connects, 0.99)
	}
	return rows
}

// quantile is one of sorted values, nil if there is none.
func quantile(sorted []float64, part float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	return &sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

// columns are those of a table of groups of open connections, or of records.
func (g *groups) columns(open bool) []column[grouped] {
	type row = *grouped
	lasted := func(of func(row) *float64) func([]byte, row) []byte {
		return func(b []byte, r row) []byte {
			ms := of(r)
			switch {
			case ms == nil:
				return append(b, none...)
			case open:
				return appendDuration(b, time.Duration(*ms*float64(time.Millisecond)))
			}
			return appendLasted(b, *ms)
		}
	}
	all := []column[grouped]{
		{name: strings.ToUpper(g.by), cell: func(b []byte, r row) []byte { return appendText(b, r.Name) }},
	}
	if g.by == byClient {
		all = append(all, column[grouped]{name: "CLIENT-POD", cell: func(b []byte, r row) []byte {
			return appendText(b, r.ClientPod)
		}})
	}
	name, failed := "DURATION", "FAILED"
	if open {
		name, failed = "AGE", "FAILED-DIALS"
	}
	all = append(all,
		column[grouped]{name: "COUNT", cell: func(b []byte, r row) []byte { return appendCount(b, &r.Count) }},
		column[grouped]{name: failed, paint: paintFailedGroup, cell: func(b []byte, r row) []byte {
			return appendCount(b, &r.Failed)
		}},
		column[grouped]{name: "UP", cell: func(b []byte, r row) []byte { return appendSize(b, r.BytesUp) }},
		column[grouped]{name: "DOWN", cell: func(b []byte, r row) []byte { return appendSize(b, r.BytesDown) }},
		column[grouped]{name: name + "-P50", cell: lasted(func(r row) *float64 { return r.DurationP50MS })},
		column[grouped]{name: name + "-P99", cell: lasted(func(r row) *float64 { return r.DurationP99MS })},
	)
	if open {
		return all
	}
	return append(all,
		column[grouped]{name: "CONNECT-P50", cell: lasted(func(r row) *float64 { return r.ConnectP50MS })},
		column[grouped]{name: "CONNECT-P99", cell: lasted(func(r row) *float64 { return r.ConnectP99MS })},
	)
}

func paintFailedGroup(g *grouped) paint {
	if g.Failed > 0 {
		return yellow
	}
	return plain
}
