package webui

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
)

// mostShown is how many rows of a list are shown: who looks for another one filters.
const mostShown = 200

// Overview is the page of Services.
type Overview struct {
	Now      time.Time        `json:"now"`
	Since    time.Time        `json:"since"` // what is counted was counted since then
	Interval float64          `json:"interval_s"`
	Nodes    []NodeStatus     `json:"nodes"`
	Total    int              `json:"total"` // of the service ports that match
	LeftOut  bool             `json:"left_out,omitempty"`
	Services []*ServiceStatus `json:"services"`
	Failed   []uint32         `json:"failed"` // in each interval, of all that match
	Begun    []uint32         `json:"begun"`
}

// NodeStatus is a node that is asked.
type NodeStatus struct {
	Node    string     `json:"portald_node"`
	Why     string     `json:"why,omitempty"` // it does not answer
	Heard   *time.Time `json:"heard"`         // null: not yet
	Version string     `json:"version,omitempty"`
	Mode    string     `json:"mode,omitempty"`
	Writer  string     `json:"writer,omitempty"`
	Ready   bool       `json:"ready"`
	Records *time.Time `json:"records_since"`
}

// ServiceStatus is a service port, with what all nodes tell of it added up.
type ServiceStatus struct {
	Name     string   `json:"name"`
	Protocol string   `json:"protocol"`
	Modes    []string `json:"modes"` // several while nodes differ
	ModeFrom []string `json:"mode_from"`
	// Endpoints are the most that a node has; Usable is of the node that has the fewest usable ones.
	Endpoints int  `json:"endpoints"`
	Usable    int  `json:"usable"`
	Nodes     int  `json:"nodes"`
	Open      *int `json:"open"` // null: no node knows it

	// Since Overview.Since, of the last five minutes at most; null where no node counts it.
	Rate    *float64 `json:"rate"` // new connections a second, lately
	Begun   *uint64  `json:"begun"`
	Failed  *uint64  `json:"failed"`
	Retries *uint64  `json:"retries"`
	P99     *float64 `json:"p99_ms"`
	Beyond  bool     `json:"p99_beyond,omitempty"` // it is longer than that

	Ever         *uint64  `json:"failed_ever"` // since the daemons began
	Problem      string   `json:"problem,omitempty"`
	ProblemNodes []string `json:"problem_nodes,omitempty"`

	Line       []uint32 `json:"begun_line"` // in each interval; null: nothing was carried
	FailedLine []uint32 `json:"failed_line"`
}

// lately is the time of which rates are.
const lately = 6 // intervals

// overview is the page of Services, filtered and sorted as a query says.
func (c *cluster) overview(_ context.Context, query url.Values) (any, error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Overview{Now: now.UTC(), Since: c.since(now), Interval: interval.Seconds(), Nodes: c.statuses(),
		LeftOut: c.leftOut, Services: []*ServiceStatus{}, Failed: make([]uint32, intervals), Begun: make([]uint32, intervals)}
	for _, r := range c.rows {
		if !matches(r.name, query.Get("q")) {
			continue
		}
		s := c.status(r, now)
		out.Services = append(out.Services, s)
		sumUp(out.Failed, s.FailedLine)
		sumUp(out.Begun, s.Line)
	}
	sortServices(out.Services, query.Get("sort"))
	if out.Total = len(out.Services); out.Total > mostShown {
		out.Services = out.Services[:mostShown]
	}
	return out, nil
}

// nodesNow is the page of nodes.
func (c *cluster) nodesNow(context.Context, url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return struct {
		Nodes []NodeStatus `json:"nodes"`
	}{c.statuses()}, nil
}

func (c *cluster) since(now time.Time) time.Time {
	if ago := now.Add(-past); ago.After(c.began) {
		return ago.UTC()
	}
	return c.began.UTC()
}

func (c *cluster) statuses() []NodeStatus {
	out := make([]NodeStatus, 0, len(c.nodes))
	for _, n := range c.nodes {
		s := NodeStatus{Node: n.name(), Why: n.why, Version: n.info.Version, Mode: n.info.Mode, Writer: n.info.Writer,
			Ready: n.info.Ready}
		if !n.heard.IsZero() {
			heard, records := n.heard.UTC(), n.info.RecordsSince.UTC()
			s.Heard, s.Records = &heard, &records
		}
		out = append(out, s)
	}
	return out
}

// status adds up what nodes tell of a service port.
func (c *cluster) status(r *row, now time.Time) *ServiceStatus {
	s := &ServiceStatus{Name: r.name, Protocol: r.protocol, Modes: []string{}, ModeFrom: []string{}, Usable: -1}
	counted := false
	for place, t := range r.nodes {
		if t == nil {
			continue
		}
		s.take(t, c.nodes[place].name())
		counted = counted || t.counts != nil
	}
	s.Usable = max(0, s.Usable)
	if counted && !r.crowded {
		s.count(r, now, now.Sub(c.since(now)))
	}
	return s
}

func (s *ServiceStatus) take(t *tally, node string) {
	s.Nodes++
	s.Modes, s.ModeFrom = addWord(s.Modes, t.mode), addWord(s.ModeFrom, t.modeFrom)
	s.Endpoints = max(s.Endpoints, t.endpoints)
	if s.Usable < 0 || t.usable < s.Usable {
		s.Usable = t.usable
	}
	if t.open != nil {
		s.Open = addUp(s.Open, *t.open)
	}
	if t.counts != nil {
		s.Ever = addUp(s.Ever, t.counts.failed)
	}
	if t.problem != "" {
		s.Problem = cmp.Or(s.Problem, t.problem)
		s.ProblemNodes = append(s.ProblemNodes, node)
	}
}

// count fills in what was counted in the time that we have looked.
func (s *ServiceStatus) count(r *row, now time.Time, looked time.Duration) {
	s.Rate, s.Begun, s.Failed, s.Retries = new(float64), new(uint64), new(uint64), new(uint64)
	if r.past == nil {
		return
	}
	s.Line = r.past.series(now, func(p *point) uint32 { return p.begun })
	s.FailedLine = r.past.series(now, func(p *point) uint32 { return p.failed })
	*s.Begun, *s.Failed = sum(s.Line), sum(s.FailedLine)
	*s.Retries = sum(r.past.series(now, func(p *point) uint32 { return p.retries }))
	*s.Rate = float64(sum(s.Line[intervals-lately:])) / min(looked, lately*interval).Seconds()
	if ms, beyond, any := quantile(0.99, r.bounds, r.past.firstByte(now)); any {
		s.P99, s.Beyond = &ms, beyond
	}
}

func addWord(words []string, word string) []string {
	if slices.Contains(words, word) {
		return words
	}
	return append(words, word)
}

func addUp[N int | uint64](to *N, n N) *N {
	if to != nil {
		n += *to
	}
	return &n
}

func sumUp(to, more []uint32) {
	for i, n := range more {
		to[i] += n
	}
}

// matches tells whether a service port is meant by a part of its name.
func matches(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(strings.TrimSpace(part)))
}

// sortServices sorts by a column, the most first; by trouble: what clients notice first.
func sortServices(all []*ServiceStatus, by string) {
	number := func(n *uint64) float64 {
		if n == nil {
			return -1
		}
		return float64(*n)
	}
	rank := map[string]func(*ServiceStatus) float64{
		"rate":    func(s *ServiceStatus) float64 { return *cmp.Or(s.Rate, &nothing) },
		"open":    func(s *ServiceStatus) float64 { return float64(*cmp.Or(s.Open, &none)) },
		"failed":  func(s *ServiceStatus) float64 { return number(s.Failed) },
		"retries": func(s *ServiceStatus) float64 { return number(s.Retries) },
		"p99":     func(s *ServiceStatus) float64 { return *cmp.Or(s.P99, &nothing) },
		"name":    func(*ServiceStatus) float64 { return 0 },
	}[by]
	if rank == nil {
		rank = trouble
	}
	slices.SortFunc(all, func(a, b *ServiceStatus) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol))
	})
}

var (
	nothing = -1.0
	none    = -1
)

// trouble is the larger the more clients notice.
func trouble(s *ServiceStatus) (rank float64) {
	if s.Problem != "" {
		rank += 1e12
	}
	if s.Failed != nil {
		rank += 1e4 * float64(*s.Failed)
	}
	if s.Retries != nil {
		rank += 1e2 * float64(*s.Retries)
	}
	if s.Rate != nil {
		rank += min(*s.Rate, 99)
	}
	return rank
}
