package debug

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// Summary is what was seen of a Service: what -o json prints.
type Summary struct {
	Service     string      `json:"service"`
	Began       time.Time   `json:"began"`
	Ended       time.Time   `json:"ended"`
	EndedBy     string      `json:"ended_by"`
	Connections int         `json:"connections"` // of which a record came
	Failed      int         `json:"failed"`
	Outcomes    []*Outcome  `json:"outcomes"`  // the most frequent first
	Endpoints   []*Endpoint `json:"endpoints"` // those with the most failures first
	Resets      []*Reset    `json:"resets"`    // the most frequent first
	Clients     []*Client   `json:"clients"`   // those with the most failures first
	Failures    []Failure   `json:"failures"`  // the last, in the order of time
	Changes     []*Change   `json:"changes"`
	Nodes       []*node     `json:"nodes"`
	Notes       []string    `json:"notes"`
	LeftOut     int         `json:"left_out"` // endpoints, clients, resets and changes that the lists have no room for

	outcomes  map[record.Outcome]*Outcome
	endpoints map[netip.AddrPort]*Endpoint
	resets    map[resetKey]*Reset
	clients   map[netip.Addr]*Client
	changes   map[string]*Change
}

// What is kept of each list, so that a Service with very many clients or endpoints takes a bounded memory.
const (
	mostKept     = 1000
	mostFailures = 100
	mostClients  = 20 // of those that are shown
)

// Outcome is how often connections ended so.
type Outcome struct {
	Outcome record.Outcome `json:"outcome"`
	Times   int            `json:"times"`
}

// Endpoint is what was seen of one that was dialled.
type Endpoint struct {
	Address     netip.AddrPort `json:"address"`
	Pod         string         `json:"pod"`
	Node        string         `json:"node"`
	Dials       int            `json:"dials"`
	DialsFailed int            `json:"dials_failed"`
	Connections int            `json:"connections"` // that ended with it
	Failed      int            `json:"failed"`      // of those
	LastError   string         `json:"last_error,omitempty"`
	Dial        *Times         `json:"dial"`       // of dials that worked
	FirstByte   *Times         `json:"first_byte"` // from the connection of the client to the first byte of the endpoint
}

// Reset is who reset connections.
type Reset struct {
	By       record.Side    `json:"by"` // client, endpoint, or proxy, which passes on what happened to the other side
	Outcome  record.Outcome `json:"outcome"`
	Endpoint netip.AddrPort `json:"endpoint"`
	Pod      string         `json:"pod"`
	Times    int            `json:"times"`
	First    time.Time      `json:"first"`
	Last     time.Time      `json:"last"`
	Client   string         `json:"client"` // of the last
}

type resetKey struct {
	by       record.Side
	outcome  record.Outcome
	endpoint netip.AddrPort
}

// Client is how connections of one ended.
type Client struct {
	Address     netip.Addr `json:"address"`
	Pod         string     `json:"pod"`
	Connections int        `json:"connections"`
	Failed      int        `json:"failed"`
}

// Failure is a connection that failed.
type Failure struct {
	Node string `json:"node"`
	ID   uint64 `json:"id"`
	Text string `json:"text"` // the record as a line
}

// Change is what changed, on these nodes.
type Change struct {
	Time  time.Time `json:"time"` // of the first that noticed it
	Text  string    `json:"text"`
	Nodes []string  `json:"nodes"`
}

func newSummary(of service.Name, now time.Time) *Summary {
	return &Summary{
		Service: of.String(), Began: now.UTC(), Outcomes: []*Outcome{}, Failures: []Failure{}, Notes: []string{},
		outcomes: map[record.Outcome]*Outcome{}, endpoints: map[netip.AddrPort]*Endpoint{},
		resets: map[resetKey]*Reset{}, clients: map[netip.Addr]*Client{}, changes: map[string]*Change{},
	}
}

// entry returns the value of a key, which it makes unless there are too many; nil: there are.
func entry[K comparable, V any](s *Summary, in map[K]*V, key K, fresh V) *V {
	if v := in[key]; v != nil {
		return v
	}
	if len(in) >= mostKept {
		s.LeftOut++
		return nil
	}
	in[key] = &fresh
	return &fresh
}

// add counts a record.
func (s *Summary) add(l *connlog.Line) {
	failed := !l.Outcome.Well()
	s.Connections++
	if o := entry(s, s.outcomes, l.Outcome, Outcome{Outcome: l.Outcome}); o != nil {
		o.Times++
	}
	if c := entry(s, s.clients, l.Client.Addr(), Client{Address: l.Client.Addr()}); c != nil {
		c.Pod = cmp.Or(l.ClientPod, c.Pod)
		c.Connections++
		c.Failed += one(failed)
	}
	s.addDials(l)
	s.addReset(l)
	if !failed {
		return
	}
	s.Failed++
	s.Failures = append(s.Failures, Failure{l.PortaldNode, l.ID, trimEnd(inspect.Compact(l, false))})
	s.Failures = s.Failures[max(0, len(s.Failures)-mostFailures):]
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func trimEnd(line string) string { return line[:max(0, len(line)-1)] }

func (s *Summary) endpoint(at netip.AddrPort) *Endpoint {
	if !at.IsValid() {
		return nil
	}
	return entry(s, s.endpoints, at, Endpoint{Address: at, Dial: &Times{}, FirstByte: &Times{}})
}

func (s *Summary) addDials(l *connlog.Line) {
	for i := range l.Attempts {
		a := &l.Attempts[i]
		e := s.endpoint(a.Endpoint)
		if e == nil {
			continue
		}
		times := max(a.Times, 1)
		e.Dials += times
		if a.Error != "" {
			e.DialsFailed += times
			e.LastError = a.Error
		} else if l.Protocol == "tcp" {
			e.Dial.add(a.MS)
		}
	}
	e := s.endpoint(l.Endpoint)
	if e == nil {
		return
	}
	e.Pod, e.Node = cmp.Or(l.Pod, e.Pod), cmp.Or(l.Node, e.Node)
	e.Connections++
	if !l.Outcome.Well() {
		e.Failed++
		e.LastError = cmp.Or(l.Error, e.LastError)
	}
	if l.FirstByteMS != nil {
		e.FirstByte.add(*l.FirstByteMS)
	}
}

func (s *Summary) addReset(l *connlog.Line) {
	if l.CloseType != record.Reset {
		return
	}
	at := l.Time.Time.UTC()
	r := entry(s, s.resets, resetKey{l.ClosedBy, l.Outcome, l.Endpoint}, Reset{
		By: l.ClosedBy, Outcome: l.Outcome, Endpoint: l.Endpoint, First: at})
	if r == nil {
		return
	}
	r.Times++
	r.Pod, r.Last, r.Client = cmp.Or(l.Pod, r.Pod), at, cmp.Or(l.ClientPod, l.Client.String())
}

// addChange adds what a node noticed. What several notice is told once.
func (s *Summary) addChange(of string, l *changes.Line) {
	c := entry(s, s.changes, l.Text, Change{Time: l.Time.UTC(), Text: l.Text})
	if c == nil {
		return
	}
	if l.Time.Before(c.Time) {
		c.Time = l.Time.UTC()
	}
	if !slices.Contains(c.Nodes, of) {
		c.Nodes = append(c.Nodes, of)
		slices.Sort(c.Nodes)
	}
}

// finish makes the lists.
func (s *Summary) finish(nodes []*node) {
	s.Ended, s.Nodes = time.Now().UTC(), nodes
	s.Outcomes = sorted(s.outcomes, func(a, b *Outcome) int {
		return cmp.Or(b.Times-a.Times, cmp.Compare(a.Outcome, b.Outcome))
	})
	s.Endpoints = sorted(s.endpoints, func(a, b *Endpoint) int {
		return cmp.Or(b.Failed+b.DialsFailed-a.Failed-a.DialsFailed, a.Address.Compare(b.Address))
	})
	s.Resets = sorted(s.resets, func(a, b *Reset) int { return cmp.Or(b.Times-a.Times, a.First.Compare(b.First)) })
	s.Clients = sorted(s.clients, func(a, b *Client) int {
		return cmp.Or(b.Failed-a.Failed, b.Connections-a.Connections, a.Address.Compare(b.Address))
	})
	s.Changes = sorted(s.changes, func(a, b *Change) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Text, b.Text))
	})
}

func sorted[K comparable, V any](all map[K]*V, compare func(a, b *V) int) []*V {
	return append(make([]*V, 0, len(all)), slices.SortedFunc(maps.Values(all), compare)...) // an empty list is no null
}
