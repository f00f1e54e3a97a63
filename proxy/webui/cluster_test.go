package webui

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/recordtest"
)

func overviewOf(t *testing.T, c *cluster, query string) Overview {
	t.Helper()
	values, err := url.ParseQuery(query)
	check(t, err)
	out, err := c.overview(t.Context(), values)
	check(t, err)
	return out.(Overview)
}

// What nodes count is added up from the first look on; percentiles are of all connections, and not of the nodes'.
func TestNodesAreAddedUp(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	a.services, b.services = []adminsocket.Service{cart(100, 50, 9, 3)}, []adminsocket.Service{cart(7, 0, 0, 1)}
	b.services[0].Problem = "1 of 3 endpoints fail connections"
	c := newCluster([]Node{a.serve(t), b.serve(t)}, time.Minute)
	pass(t, c)
	s := overviewOf(t, c, "").Services[0]
	if *s.Failed != 0 || *s.Begun != 0 || *s.Ever != 50 || *s.Open != 4 || s.Nodes != 2 {
		t.Errorf("what was before the first look is counted: %+v", s)
	}
	if s.Usable != 1 || s.Endpoints != 3 || s.Problem == "" || !slices.Equal(s.ProblemNodes, []string{"b"}) {
		t.Errorf("the node with the fewest endpoints, and the one with a problem: %+v", s)
	}
	a.services[0], b.services[0] = cart(300, 51, 12, 3), cart(307, 0, 4, 3)
	pass(t, c)
	o := overviewOf(t, c, "")
	s = o.Services[0]
	if *s.Begun != 500 || *s.Failed != 1 || *s.Retries != 7 || *s.P99 != 1 || s.Beyond || sum(o.Failed) != 1 {
		t.Errorf("%+v: 500 connections, 1 failed, 7 retries, 99 %% within 1 ms", s)
	}
	a.services[0] = cart(20, 20, 0, 3) // it was started again
	pass(t, c)
	if s = overviewOf(t, c, "").Services[0]; *s.Failed != 21 || !s.Beyond || *s.P99 != 10 {
		t.Errorf("after a restart: %+v", s)
	}
	unknown := cart(0, 0, 0, 3) // the kernel carries it now, and back
	unknown.Failed = nil
	a.services[0] = unknown
	pass(t, c)
	a.services[0] = cart(5000, 5000, 0, 3)
	pass(t, c)
	if s = overviewOf(t, c, "").Services[0]; *s.Failed != 21 {
		t.Errorf("what was not known is counted as new: %+v", s)
	}
	a.services, b.services = nil, nil
	pass(t, c)
	if o := overviewOf(t, c, ""); len(o.Services) != 0 || len(c.rows) != 0 || c.told != 0 {
		t.Errorf("Services that are gone: %+v", o)
	}
}

// Another version's histogram may have other bounds: its counts are not mixed in.
func TestOtherBoundsAreNotMixed(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	a.services, b.services = []adminsocket.Service{cart(1, 0, 0, 3)}, []adminsocket.Service{cart(1, 0, 0, 3)}
	b.services[0].FirstByte.BoundsMS = []float64{1000, 2000}
	c := newCluster([]Node{a.serve(t), b.serve(t)}, time.Minute)
	pass(t, c)
	a.services[0], b.services[0].Ended = cart(11, 0, 0, 3), ptr(uint64(100))
	b.services[0].FirstByte.Counts = []uint64{0, 0, 100}
	pass(t, c)
	if s := overviewOf(t, c, "").Services[0]; *s.Begun != 109 || *s.P99 != 1 || s.Beyond {
		t.Errorf("%+v", s)
	}
}

// A node that does not answer is named, and the others are shown at once.
func TestNodeThatHangs(t *testing.T) {
	a := newFake("a")
	a.services = []adminsocket.Service{cart(1, 0, 0, 3)}
	c := newCluster([]Node{hung(t, "stuck"), a.serve(t)}, time.Minute)
	c.limit = 100 * time.Millisecond
	pass(t, c)
	o := overviewOf(t, c, "")
	if len(o.Services) != 1 || o.Nodes[0].Node != "stuck" || !strings.Contains(o.Nodes[0].Why, "no answer within 100ms") ||
		o.Nodes[1].Why != "" || o.Nodes[1].Node != "a" {
		t.Errorf("%+v", o)
	}
	c.limit = time.Hour // a node that is known to hang is not waited for
	out, err := c.connections(t.Context(), nil)
	check(t, err)
	if away := out.(Connections).Away; len(away) != 1 || away[0].Node != "stuck" {
		t.Errorf("%+v", away)
	}
}

// A node may hang only once it is asked: then it is waited for no longer than the limit.
func TestNodeThatBeginsToHang(t *testing.T) {
	a := newFake("a")
	a.connections = []adminsocket.Connection{{ID: 1, Service: "shop/cart:http"}}
	c := newCluster([]Node{hung(t, "stuck"), a.serve(t)}, time.Minute)
	c.limit = 100 * time.Millisecond
	out, err := c.connections(t.Context(), nil)
	check(t, err)
	if got := out.(Connections); len(got.Connections) != 1 || len(got.Away) != 1 || got.Away[0].Node != "stuck" {
		t.Errorf("%+v", got)
	}
}

// Services are filtered, sorted and bounded by the server: a page of 10,000 is no use to anybody.
func TestManyServices(t *testing.T) {
	a := newFake("a")
	for _, n := range []string{"apple", "berry"} {
		for i := range mostShown {
			s := cart(uint64(i), 0, 0, 3)
			s.Name = "shop/" + n + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			a.services = append(a.services, s)
		}
	}
	c := newCluster([]Node{a.serve(t)}, time.Minute)
	pass(t, c)
	if o := overviewOf(t, c, "sort=name"); len(o.Services) != mostShown || o.Total != 2*mostShown ||
		!slices.IsSortedFunc(o.Services, func(a, b *ServiceStatus) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d of %d", len(o.Services), o.Total)
	}
	o := overviewOf(t, c, "q=BERRYb")
	if o.Total != len(o.Services) || !strings.HasPrefix(o.Services[0].Name, "shop/berryb") {
		t.Errorf("%d of %d", len(o.Services), o.Total)
	}
}

// One Service's endpoints are side by side, of all nodes.
func TestEndpointsSideBySide(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	at := func(address string, dials, failures uint64) adminsocket.Endpoint {
		return adminsocket.Endpoint{Service: "shop/cart:http", Protocol: "tcp", Address: netip.MustParseAddrPort(address),
			State: "used", Open: ptr(1), Dials: &dials, Failures: &failures}
	}
	a.services, b.services = []adminsocket.Service{cart(1, 0, 0, 3)}, []adminsocket.Service{cart(1, 0, 0, 3)}
	a.endpoints = []adminsocket.Endpoint{at("10.0.0.1:80", 5, 0), at("10.0.0.2:80", 3, 1)}
	b.endpoints = []adminsocket.Endpoint{at("10.0.0.2:80", 4, 2)}
	b.endpoints[0].Pod = "shop/cart-b"
	b.endpoints = append(b.endpoints, adminsocket.Endpoint{Service: "shop/other", Protocol: "tcp"})
	c := newCluster([]Node{a.serve(t), b.serve(t)}, time.Minute)
	pass(t, c)
	out, err := c.service(t.Context(), url.Values{"name": {"shop/cart:http"}, "protocol": {"tcp"}})
	check(t, err)
	s := out.(Service)
	if len(s.Nodes) != 2 || s.Total != 2 || s.Status == nil {
		t.Fatalf("%+v", s)
	}
	worst := s.Endpoints[0]
	if worst.Address.String() != "10.0.0.2:80" || *worst.Dials != 7 || *worst.Failures != 3 || *worst.Open != 2 ||
		worst.Pod != "shop/cart-b" || len(worst.On) != 2 || worst.On[0].PortaldNode != "a" {
		t.Errorf("%+v", worst)
	}
	if out, err = c.service(t.Context(), url.Values{"name": {"shop/gone"}}); err != nil || out.(Service).Status != nil {
		t.Errorf("a Service that is gone: %+v %v", out, err)
	}
	if _, err = c.service(t.Context(), nil); err == nil {
		t.Error("no Service was named, and there is no error")
	}
}

// Quantiles of an endpoint are of all connections, and not of the slowest node, nor of a mean; each node keeps its own.
func TestQuantilesOfAllNodes(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	at := netip.MustParseAddrPort("10.0.0.1:80")
	measured := func(slow float64, counts ...uint64) []adminsocket.Endpoint {
		h := &adminsocket.Histogram{BoundsMS: []float64{1, 10, 100}, Counts: counts}
		return []adminsocket.Endpoint{{Service: "shop/cart:http", Protocol: "tcp", Address: at, DialP99ms: &slow,
			FirstByteP50ms: &slow, FirstByteP99ms: &slow, DialTimes: h, FirstByteTimes: h}}
	}
	a.endpoints, b.endpoints = measured(1, 990, 0, 0, 0), measured(90, 0, 0, 10, 0)
	c := newCluster([]Node{a.serve(t), b.serve(t)}, time.Minute)
	pass(t, c)
	row := func() *EndpointRow {
		out, err := c.service(t.Context(), url.Values{"name": {"shop/cart:http"}, "protocol": {"tcp"}})
		check(t, err)
		return out.(Service).Endpoints[0]
	}
	r := row()
	if *r.DialP99ms > 1 || *r.FirstByteP50ms > 1 || *r.FirstByteP99ms > 1 {
		t.Errorf("99 of 100 took 1 ms at most: %v %v %v", *r.DialP99ms, *r.FirstByteP50ms, *r.FirstByteP99ms)
	}
	if len(r.On) != 2 || *r.On[0].FirstByteP99ms != 1 || *r.On[1].FirstByteP99ms != 90 || r.On[1].FirstByteTimes != nil {
		t.Errorf("each node has its own: %+v", r.On)
	}
	a.endpoints[0].DialTimes, b.endpoints[0].DialTimes = nil, nil // nodes of another version
	if r = row(); *r.DialP99ms != 90 || *r.FirstByteP99ms > 1 {
		t.Errorf("without counts the longest stands for all: %v %v", *r.DialP99ms, *r.FirstByteP99ms)
	}
	b.endpoints[0].FirstByteTimes.BoundsMS = []float64{1, 2, 3}
	if r = row(); *r.FirstByteP99ms > 1 {
		t.Errorf("other bounds are mixed in: %v", *r.FirstByteP99ms)
	}
}

// Connections of all nodes are merged in the order of the query, the first ones of all.
func TestConnectionsAreMerged(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	for i := range 150 {
		a.connections = append(a.connections, adminsocket.Connection{ID: uint64(i + 1), BytesFromClient: int64(2 * i)})
		b.connections = append(b.connections, adminsocket.Connection{ID: uint64(i + 1), BytesFromClient: int64(2*i + 1)})
	}
	c := newCluster([]Node{a.serve(t), b.serve(t)}, time.Minute)
	pass(t, c)
	out, err := c.connections(t.Context(), url.Values{"sort": {"bytes"}})
	check(t, err)
	all := out.(Connections).Connections
	if len(all) != mostShown || all[0].PortaldNode != "b" || all[0].BytesFromClient != 299 || all[1].PortaldNode != "a" ||
		all[mostShown-1].BytesFromClient != 100 {
		t.Errorf("%d: %+v … %+v", len(all), all[0], all[len(all)-1])
	}
}

func TestConnectionQuery(t *testing.T) {
	for text, want := range map[string]url.Values{
		"q=10.0.0.1":           {"ip": {"10.0.0.1/32"}},
		"q=10.0.0.0/8":         {"ip": {"10.0.0.0/8"}},
		"q=10.0.0.1:80":        {"ip": {"10.0.0.1/32"}, "port": {"80"}},
		"q=pod/shop/a":         {"pod": {"shop/a"}},
		"q=cart":               {"service": {"*cart*"}},
		"q=shop/ca":            {"service": {"shop/ca*"}},
		"q=*":                  {"service": {`*\**`}},
		"service=shop/a&q=b":   {"service": {"shop/a"}},
		"endpoint=10.0.0.1:80": {"endpoint": {"10.0.0.1:80"}},
	} {
		values, err := url.ParseQuery(text)
		check(t, err)
		q := connectionQuery(values)
		got := q.Values()
		for _, key := range []string{"sort", "limit", "tcp"} {
			if got.Get(key) == "" {
				t.Errorf("%s: no %s", text, key)
			}
			delete(got, key)
		}
		for key, values := range got {
			if len(values) == 0 {
				delete(got, key)
			}
		}
		if got.Encode() != want.Encode() {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// Failures and changes of all nodes are on one axis of time; what several nodes noticed is there once.
func TestEndingsAndChanges(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	now := time.Now()
	for i, f := range []*fake{a, b} {
		r := recordtest.Sample()
		r.ID, r.Start, r.Outcome = uint64(i+1), now.Add(-time.Duration(i+1)*time.Minute), record.OutcomeEndpointReset
		f.records.Observe(r)
		f.records.Observe(recordtest.Sample()) // long ago, and well
		added := changes.Change{Time: now.Add(-time.Minute), Kind: changes.EndpointEjected,
			Service:  service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
			Endpoint: netip.MustParseAddrPort("10.0.0.1:80"), New: "refused"}
		f.changes.Add(added)
	}
	b.changes.Add(changes.Change{Time: now.Add(-time.Hour), Kind: changes.Resynced, What: "before"})
	b.changes.Add(changes.Change{Time: now, Kind: changes.Resynced, What: "b alone"})
	c := newCluster([]Node{a.serve(t), b.serve(t)}, time.Minute)
	pass(t, c)
	out, err := c.endings(t.Context(), url.Values{"window": {"10m"}})
	check(t, err)
	e := out.(Endings)
	if e.Total != 2 || e.Endings[0].PortaldNode != "a" || e.Endings[1].PortaldNode != "b" ||
		e.Outcomes["endpoint_reset"] != 2 || e.Bins[53]+e.Bins[54] != 1 || !e.KnownSince.Equal(e.From) {
		t.Errorf("%+v", e)
	}
	if len(e.Changes) != 2 || e.Changes[0].What != "b alone" || len(e.Changes[1].Nodes) != 2 || !e.Changes[1].Effect {
		t.Errorf("%+v", e.Changes)
	}
	for query, want := range map[string]int{"kind=all": 2, "kind=retried": 2, "service=shop/cart:http": 2,
		"service=shop/x": 0, "endpoint=10.1.0.3:8080": 2, "endpoint=10.1.0.9": 0} {
		values, err := url.ParseQuery(query)
		check(t, err)
		if out, err := c.endings(t.Context(), values); err != nil || out.(Endings).Total != want {
			t.Errorf("%s: %v, want %d; %v", query, out, want, err)
		}
	}
	for _, query := range []string{"window=1s", "window=x", "kind=x", "endpoint=x"} {
		values, _ := url.ParseQuery(query)
		if _, err := c.endings(t.Context(), values); err == nil {
			t.Errorf("%s is no error", query)
		}
	}
}

// A node's memory that begins within the time, or has more records than are asked for, tells so.
func TestEndingsThatAreNotKnown(t *testing.T) {
	to := time.Now()
	e := Endings{From: to.Add(-time.Hour), To: to, Bins: make([]int, bins), Outcomes: map[string]int{}}
	e.KnownSince = e.From
	since := to.Add(-time.Minute)
	e.take("a", &heard{since: since})
	if !e.KnownSince.Equal(since) {
		t.Errorf("%v, want %v", e.KnownSince, since)
	}
}

// Many nodes that have much to tell are asked seldom.
func TestBudget(t *testing.T) {
	c := newCluster(make([]Node, 200), time.Minute)
	c.nodes[0].size = 1_400_000
	if got := c.rest(c.nodes[0], time.Millisecond); got < 30*time.Second || got > 40*time.Second {
		t.Errorf("280 MB are read in %v", got)
	}
	if got := c.rest(c.nodes[1], time.Second); got != 9*time.Second {
		t.Errorf("what takes a second is asked for after %v", got)
	}
}

// watch asks again and again until it is told to end.
func TestWatch(t *testing.T) {
	a := newFake("a")
	a.services = []adminsocket.Service{cart(1, 0, 0, 3)}
	c := newCluster([]Node{a.serve(t)}, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.watch(ctx, time.Millisecond); close(ended) }()
	for passes := uint64(0); passes < 3; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		passes = c.nodes[0].passes
		c.mu.Unlock()
	}
	cancel()
	<-ended
}
