package merge

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

var errWhichNode = errors.New("ids of connections are of one node: name it by --on-node")

// info is of all nodes: what differs among them is listed.
func (h *handler) info(w http.ResponseWriter, r *http.Request) error {
	answers, err := gather(r.Context(), h, func(ctx context.Context, c *adminsocket.Client) (adminsocket.Info, error) {
		return c.Info(ctx)
	})
	if err != nil {
		return err
	}
	all := answers[0].value
	versions, nodes, levels := []string{}, []string{}, []string{}
	for _, a := range answers {
		versions, nodes = append(versions, a.value.Version), append(nodes, a.node)
		levels = append(levels, a.value.LogLevel)
		all.Ready = all.Ready && a.value.Ready
		if a.value.RecordsSince.After(all.RecordsSince) { // from then on those of all nodes are there
			all.RecordsSince, all.Started = a.value.RecordsSince, a.value.Started
		}
	}
	all.Version, all.Node, all.LogLevel = listed(versions), listed(nodes), listed(levels)
	return writeJSON(w, all)
}

// listed are the different ones of some names.
func listed(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// rowsOf returns the list of each node.
func rowsOf[T any](h *handler, r *http.Request) ([]said[[]T], error) {
	return gather(r.Context(), h, func(ctx context.Context, c *adminsocket.Client) (rows []T, err error) {
		return rows, c.Get(ctx, r.URL.Path, r.URL.Query(), &rows)
	})
}

type portKey struct{ name, protocol string }

// services writes each service port once, with what all nodes count.
func (h *handler) services(w http.ResponseWriter, r *http.Request) error {
	answers, err := rowsOf[adminsocket.Service](h, r)
	if err != nil {
		return err
	}
	return writeJSON(w, mergeServices(answers))
}

func mergeServices(answers []said[[]adminsocket.Service]) []adminsocket.Service {
	merged := map[portKey]*mergedService{}
	for _, a := range answers {
		for i := range a.value {
			s := &a.value[i]
			key := portKey{s.Name, s.Protocol}
			if merged[key] == nil {
				merged[key] = &mergedService{Service: *s, problems: map[string][]string{}}
			} else {
				merged[key].add(s)
			}
			merged[key].note(a.node, s)
		}
	}
	all := make([]adminsocket.Service, 0, len(merged))
	for _, m := range merged {
		all = append(all, m.result())
	}
	slices.SortFunc(all, func(a, b adminsocket.Service) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all
}

// mergedService is a service port of several nodes.
type mergedService struct {
	adminsocket.Service
	nodes    int
	order    []string            // of problems, as they came
	problems map[string][]string // the nodes that have each
}

func (m *mergedService) add(s *adminsocket.Service) {
	m.Mode, m.ModeFrom = both(m.Mode, s.Mode), both(m.ModeFrom, s.ModeFrom)
	m.KeepPayload = cmp.Or(m.KeepPayload, s.KeepPayload)
	m.Endpoints, m.Usable = max(m.Endpoints, s.Endpoints), max(m.Usable, s.Usable)
	m.Open, m.Ended, m.Failed = sum(m.Open, s.Open), sum(m.Ended, s.Ended), sum(m.Failed, s.Failed)
	m.BytesUp, m.BytesDown = sum(m.BytesUp, s.BytesUp), sum(m.BytesDown, s.BytesDown)
	m.RefusedPackets = sum(m.RefusedPackets, s.RefusedPackets)
	m.ReceiveBufferErrors = sum(m.ReceiveBufferErrors, s.ReceiveBufferErrors)
	m.FailedDials, m.Replays = sum(m.FailedDials, s.FailedDials), sum(m.Replays, s.Replays)
	m.FirstByte = adminsocket.AddUp(m.FirstByte, s.FirstByte)
	for _, f := range s.Frontends {
		known := func(o adminsocket.Frontend) bool { return o.Address == f.Address && o.Kind == f.Kind }
		if !slices.ContainsFunc(m.Frontends, known) { // NodePorts are at addresses of the node
			m.Frontends = append(m.Frontends, f)
		}
	}
}

// note keeps which node has which problems.
func (m *mergedService) note(node string, s *adminsocket.Service) {
	m.nodes++
	all := s.Problems
	if len(all) == 0 && s.Problem != "" {
		all = []string{s.Problem}
	}
	for _, p := range all {
		if m.problems[p] == nil {
			m.order = append(m.order, p)
		}
		m.problems[p] = append(m.problems[p], node)
	}
}

// result says of a problem that some nodes have which these are.
func (m *mergedService) result() adminsocket.Service {
	m.Problem, m.Problems = "", nil
	for _, p := range m.order {
		if nodes := m.problems[p]; len(nodes) < m.nodes {
			p = "on " + strings.Join(nodes, ", ") + ": " + p
		}
		m.Problems = append(m.Problems, p)
	}
	if len(m.Problems) > 0 {
		m.Problem = m.Problems[0]
	}
	return m.Service
}

// both names what two nodes say, once if it is the same.
func both(a, b string) string {
	if a == b || slices.Contains(strings.Split(a, "/"), b) {
		return a
	}
	return a + "/" + b
}

// sum adds counts, of which one that is not known is none.
func sum[T int | uint64](a, b *T) *T {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	both := *a + *b
	return &both
}

type endpointKey struct {
	portKey
	address netip.AddrPort
}

// endpoints writes each endpoint of a service port once, with what all nodes count.
func (h *handler) endpoints(w http.ResponseWriter, r *http.Request) error {
	answers, err := rowsOf[adminsocket.Endpoint](h, r)
	if err != nil {
		return err
	}
	return writeJSON(w, mergeEndpoints(answers))
}

func mergeEndpoints(answers []said[[]adminsocket.Endpoint]) []adminsocket.Endpoint {
	at := map[endpointKey]int{}
	all := []adminsocket.Endpoint{}
	for _, a := range answers {
		for _, e := range a.value {
			key := endpointKey{portKey{e.Service, e.Protocol}, e.Address}
			i, known := at[key]
			if !known {
				i = len(all)
				at[key] = i
				e.States = map[string]int{}
				all = append(all, e)
			} else {
				addEndpoint(&all[i], &e)
			}
			all[i].States[e.State]++
		}
	}
	for i := range all {
		settle(&all[i])
		setQuantiles(&all[i])
	}
	slices.SortStableFunc(all, func(a, b adminsocket.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Protocol, b.Protocol), a.Address.Compare(b.Address))
	})
	return all
}

// setQuantiles makes the quantiles of all nodes of their counts: a mean of quantiles would be none.
func setQuantiles(e *adminsocket.Endpoint) {
	for _, of := range []struct {
		times    *adminsocket.Histogram
		p50, p99 **float64
	}{
		{e.DialTimes, &e.DialP50ms, &e.DialP99ms}, {e.FirstByteTimes, &e.FirstByteP50ms, &e.FirstByteP99ms},
	} {
		if of.times != nil {
			*of.p50, *of.p99 = of.times.Quantile(0.5), of.times.Quantile(0.99)
		}
	}
}

// settle sets the state: what all nodes say, or the first of what they say.
func settle(e *adminsocket.Endpoint) {
	if len(e.States) == 1 {
		e.States = nil
		return
	}
	e.State = ""
	for state := range e.States {
		if state == "used" || e.State != "used" && (e.State == "" || state < e.State) {
			e.State = state
		}
	}
}

func addEndpoint(to, e *adminsocket.Endpoint) {
	to.Open, to.Dials, to.Failures = sum(to.Open, e.Open), sum(to.Dials, e.Dials), sum(to.Failures, e.Failures)
	to.Retransmits, to.OutOfOrder = sum(to.Retransmits, e.Retransmits), sum(to.OutOfOrder, e.OutOfOrder)
	to.Since = later(to.Since, e.Since)
	to.DialTimes = adminsocket.AddUp(to.DialTimes, e.DialTimes)
	to.FirstByteTimes = adminsocket.AddUp(to.FirstByteTimes, e.FirstByteTimes)
	if e.EjectedUntil != nil && later(to.EjectedUntil, e.EjectedUntil) == e.EjectedUntil {
		to.EjectedUntil, to.EjectedFor = e.EjectedUntil, e.EjectedFor
	}
	if e.LastErrorAt != nil && later(to.LastErrorAt, e.LastErrorAt) == e.LastErrorAt {
		to.LastErrorAt, to.LastError = e.LastErrorAt, e.LastError
	}
}

// later returns the later one of two times that may not be known.
func later(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}
