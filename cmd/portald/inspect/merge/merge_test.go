package merge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/logfiles"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
)

// daemon is one of several that are asked.
type daemon struct {
	name        string
	connections []adminsocket.Connection
	services    []adminsocket.Service
	endpoints   []adminsocket.Endpoint
	records     *connlog.Stream
	files       logfiles.Log
	changes     *changes.Log
	payload     payload.Content
	cut         []uint64
}

func newDaemon(name string) *daemon {
	return &daemon{name: name, records: connlog.NewStream(64), changes: changes.NewLog(64)}
}

func (d *daemon) handler() http.Handler {
	return adminsocket.NewHandler(adminsocket.Daemon{
		Info: func() adminsocket.Info {
			return adminsocket.Info{Node: d.name, Version: "v1", LogLevel: "info", RecordsSince: d.records.Since()}
		},
		Connections: func(context.Context) iter.Seq[*adminsocket.Connection] {
			return pointers(d.connections)
		},
		AddTCP: func(context.Context, []adminsocket.Connection) {},
		Services: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Service] {
			return pointers(d.services)
		},
		Endpoints: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Endpoint] {
			return pointers(d.endpoints)
		},
		Records: d.records,
		Files:   d.files,
		Changes: d.changes,
		Payload: func() payload.Content { return d.payload },
		Cut: func(id uint64) bool {
			d.cut = append(d.cut, id)
			return true
		},
		SetLogLevel: func(string) error { return nil },
	})
}

// node serves the daemon.
func (d *daemon) node(t *testing.T) Node {
	server := httptest.NewServer(d.handler())
	t.Cleanup(server.CloseClientConnections)
	return nodeAt(d.name, server.Listener.Addr().String())
}

func nodeAt(name, address string) Node {
	return Node{name, adminsocket.NewClientOver(name, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})}
}

func pointers[T any](all []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}

// silent is a node that accepts and says nothing.
func silent(t *testing.T, name string) Node {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.CloseClientConnections)
	return nodeAt(name, server.Listener.Addr().String())
}

// failures are what nodes are reported for.
type failures struct {
	mu  sync.Mutex
	all []string
}

func (f *failures) add(node string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprint(node, ": ", err))
}

func (f *failures) get() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.all))
}

func client(t *testing.T, o Options, nodes ...Node) *adminsocket.Client {
	c := adminsocket.NewClientOver("the cluster", Dialer(nodes, o))
	t.Cleanup(c.Close)
	return c
}

func TestConnectionsOfAllNodes(t *testing.T) {
	a, b := newDaemon("a"), newDaemon("b")
	a.connections = []adminsocket.Connection{{ID: 1, BytesFromClient: 10}, {ID: 2, BytesFromClient: 30}}
	b.connections = []adminsocket.Connection{{ID: 1, BytesFromClient: 20}}
	c := client(t, Options{}, a.node(t), b.node(t))
	for _, test := range []struct {
		query adminsocket.ConnectionQuery
		want  []string
	}{
		{adminsocket.ConnectionQuery{Sort: adminsocket.ByBytes}, []string{"a 2", "b 1", "a 1"}},
		{adminsocket.ConnectionQuery{Sort: adminsocket.ByBytes, Limit: 2}, []string{"a 2", "b 1"}},
	} {
		all, err := c.Connections(t.Context(), test.query)
		var got []string
		for _, one := range all {
			got = append(got, fmt.Sprint(one.PortaldNode, " ", one.ID))
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %v, %v, want %v", test.query, got, err, test.want)
		}
	}
	unsorted, err := c.Connections(t.Context(), adminsocket.ConnectionQuery{})
	if err != nil || len(unsorted) != 3 {
		t.Errorf("got %v, %v", unsorted, err)
	}
}

func TestNodeThatSaysNothingIsReportedAndLeftOut(t *testing.T) {
	a := newDaemon("a")
	a.services = []adminsocket.Service{{Name: "shop/cart:http"}}
	var failed failures
	const wait = 200 * time.Millisecond
	c := client(t, Options{Wait: wait, Failed: failed.add}, a.node(t), silent(t, "mute"), nodeAt("gone", "127.0.0.1:1"))
	all, err := c.Services(t.Context(), adminsocket.ServiceQuery{})
	if err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
	got := failed.get()
	if len(got) != 2 || !strings.HasPrefix(got[0], "gone: portald is not reachable at gone: ") ||
		got[1] != "mute: no answer in time: within 200ms" {
		t.Errorf("reported %q", got)
	}
}

func TestErrorOfAllNodesIsTheAnswer(t *testing.T) {
	var failed failures
	c := client(t, Options{Failed: failed.add}, newDaemon("a").node(t), newDaemon("b").node(t))
	_, err := c.Drain(t.Context(), adminsocket.Drain{Endpoint: "10.0.0.1:80"})
	if !errors.Is(err, adminsocket.ErrNotFound) || len(failed.get()) > 0 {
		t.Errorf("%v, reported %q", err, failed.get())
	}
	if _, err := c.Explain(t.Context(), "shop/cart", ""); err == nil || !strings.Contains(err.Error(), "is of one node") {
		t.Errorf("explain: %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

// took is a histogram with one bound.
func took(bound float64, counts ...uint64) *adminsocket.Histogram {
	return &adminsocket.Histogram{BoundsMS: []float64{bound}, Counts: counts}
}

func TestServicesAreAddedUp(t *testing.T) {
	got := mergeServices([]said[[]adminsocket.Service]{
		{"a", []adminsocket.Service{{Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace", Endpoints: 3, Usable: 1,
			Open: ptr(1), Failed: ptr(uint64(2)), FailedDials: ptr(uint64(3)), FirstByte: took(1, 4, 0),
			Problem: "no endpoint", Problems: []string{"no endpoint", "port in use"},
			Frontends: []adminsocket.Frontend{{Address: netip.MustParseAddrPort("10.96.0.1:80"), Kind: "ClusterIP"}}}}},
		{"b", []adminsocket.Service{{Name: "shop/cart:http", Protocol: "tcp", Mode: "kernel", Endpoints: 3, Usable: 3,
			Open: ptr(4), FailedDials: ptr(uint64(4)), FirstByte: took(1, 5, 6), Problem: "no endpoint",
			Frontends: []adminsocket.Frontend{{Address: netip.MustParseAddrPort("10.96.0.1:80"), Kind: "ClusterIP"},
				{Address: netip.MustParseAddrPort("192.0.2.2:30080"), Kind: "NodePort"}}}}},
		{"c", []adminsocket.Service{{Name: "shop/cart:http", Protocol: "tcp", Mode: "kernel", FirstByte: took(2, 7, 7),
			Problem: "no endpoint"}}},
	})
	want := []adminsocket.Service{{Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace/kernel",
		Endpoints: 3, Usable: 3, Open: ptr(5), Failed: ptr(uint64(2)), Problem: "no endpoint",
		FailedDials: ptr(uint64(7)), FirstByte: took(1, 9, 6), // of c the bounds are others
		Problems: []string{"no endpoint", "on a: port in use"},
		Frontends: []adminsocket.Frontend{{Address: netip.MustParseAddrPort("10.96.0.1:80"), Kind: "ClusterIP"},
			{Address: netip.MustParseAddrPort("192.0.2.2:30080"), Kind: "NodePort"}}}}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestEndpointsAreAddedUp(t *testing.T) {
	at := netip.MustParseAddrPort("10.244.1.7:80")
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	got := mergeEndpoints([]said[[]adminsocket.Endpoint]{
		{"a", []adminsocket.Endpoint{{Service: "s", Address: at, State: "used", Open: ptr(1), Dials: ptr(uint64(10)),
			DialP99ms: ptr(1.0), DialTimes: &adminsocket.Histogram{BoundsMS: []float64{1, 3}, Counts: []uint64{1, 0, 0}},
			Since: &late, LastError: "refused", LastErrorAt: &early}}},
		{"b", []adminsocket.Endpoint{{Service: "s", Address: at, State: "ejected", Open: ptr(2), Dials: ptr(uint64(5)),
			DialP99ms: ptr(3.0), DialTimes: &adminsocket.Histogram{BoundsMS: []float64{1, 3}, Counts: []uint64{0, 199, 0}},
			Since: &early, LastError: "timed out", LastErrorAt: &late}}},
		{"c", []adminsocket.Endpoint{{Service: "s", Address: at, State: "used"}}},
	})
	want := []adminsocket.Endpoint{{Service: "s", Address: at, State: "used", Open: ptr(3), Dials: ptr(uint64(15)),
		DialP50ms: ptr(1 + 2*98.5/199), DialP99ms: ptr(1 + 2*196.5/199),
		DialTimes: &adminsocket.Histogram{BoundsMS: []float64{1, 3}, Counts: []uint64{1, 199, 0}},
		Since:     &late, LastError: "timed out", LastErrorAt: &late, States: map[string]int{"used": 2, "ejected": 1}}}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// ended is a record of a connection that ended at a second.
func ended(id uint64, second int64) *record.Record {
	return &record.Record{ID: id, Start: time.Unix(second-1, 0), Duration: time.Second, Outcome: record.OutcomeOK}
}

func TestRecordsComeInTheOrderOfTheirEnds(t *testing.T) {
	a, b := newDaemon("a"), newDaemon("b")
	for i, r := range []*record.Record{ended(1, 10), ended(2, 30), ended(3, 50)} {
		a.records.Observe(r)
		b.records.Observe(ended(uint64(11+i), int64(20+20*i)))
	}
	c := client(t, Options{}, a.node(t), b.node(t))
	for last, want := range map[int]string{4: "a2 b12 a3 b13 ", 1 << 30: "a1 b11 a2 b12 a3 b13 "} {
		got := ""
		err := c.Records(t.Context(), adminsocket.RecordQuery{Last: last}, func(l *connlog.Line) error {
			got += fmt.Sprint(l.PortaldNode, l.ID, " ")
			return nil
		}, func(adminsocket.Gap) error { return nil })
		if err != nil || got != want {
			t.Errorf("last %d: got %q, %v, want %q", last, got, err, want)
		}
	}
}

// Records of files come in the order of time too, each node says how far back it reaches, and one of a release that
// reads no files gives what it has in memory.
func TestRecordsOfFiles(t *testing.T) {
	a, b, old := newDaemon("a"), newDaemon("b"), newDaemon("old")
	a.files = logfiles.Log{Path: filepath.Join(t.TempDir(), "log"), Format: "json"}
	var text []byte
	for _, second := range []int64{1, 4, 6} {
		text = connlog.AppendJSON(text, connlog.From(ended(uint64(second), second)))
	}
	if err := os.WriteFile(a.files.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.records.Observe(ended(2, 2))
	b.records.Observe(ended(5, 5))
	old.records.Observe(ended(3, 3))
	withoutHistory := old.node(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); query.Has("history") {
			w.Header().Set(adminsocket.HeaderVersion, adminsocket.Version)
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"query: there is no key \"history\"; known are last, follow"}`)
			return
		}
		w.Header().Set(adminsocket.HeaderVersion, adminsocket.Version)
		err := withoutHistory.Client.EachLine(r.Context(), r.Method, r.URL.Path, r.URL.Query(), func() {}, func(
			line []byte,
		) error {
			_, err := fmt.Fprintf(w, "%s\n", line)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c := client(t, Options{Failed: func(node string, err error) { t.Errorf("%s: %v", node, err) }},
		a.node(t), b.node(t), nodeAt("old", server.Listener.Addr().String()))
	for last, want := range map[int]string{1 << 20: "1 2 3 4 5 6", 100: "1 2 3 4 5 6", 2: "5 6"} {
		var ids, reaches []string
		q := adminsocket.RecordQuery{Last: last, History: true}
		err := c.ReadRecords(t.Context(), q, adminsocket.RecordReader{
			Record: func(l *connlog.Line) error {
				ids = append(ids, fmt.Sprint(l.ID))
				return nil
			},
			Reach: func(r adminsocket.Reach) error {
				reaches = append(reaches, fmt.Sprint(r.Node, " ", r.Files))
				return nil
			},
		})
		slices.Sort(reaches)
		if strings.Join(ids, " ") != want || err != nil || strings.Join(reaches, ", ") != "a 1, b 0" {
			t.Errorf("the last %d: %v, want %s, of %q: %v", last, ids, want, reaches, err)
		}
	}
}

func TestChangesAreOfNodes(t *testing.T) {
	a, b := newDaemon("a"), newDaemon("b")
	a.changes.Add(changes.Change{Kind: changes.ConnectionsCut, What: "one"})
	b.changes.Add(changes.Change{Kind: changes.ConnectionsCut, What: "two"})
	c := client(t, Options{}, a.node(t), b.node(t))
	got := []string{}
	err := c.Changes(t.Context(), adminsocket.ChangeQuery{Last: 10}, func(l *changes.Line) error {
		got = append(got, l.PortaldNode+" "+l.What)
		return nil
	}, func(adminsocket.Gap) error { return nil })
	if err != nil || !slices.Equal(got, []string{"a one", "b two"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCutIsOfANode(t *testing.T) {
	a, b := newDaemon("a"), newDaemon("b")
	c := client(t, Options{}, a.node(t), b.node(t))
	if _, err := c.Cut(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "name it by --on-node") {
		t.Errorf("without a node: %v", err)
	}
	if _, err := c.CutOn(t.Context(), "b", 7); err != nil || len(a.cut) > 0 || !slices.Equal(b.cut, []uint64{7}) {
		t.Errorf("%v: a cut %v, b %v", err, a.cut, b.cut)
	}
}

// Payload of all nodes comes in the order in which the connections ended, the last so many, behind what each node says
// of its memory.
func TestPayloadOfAllNodes(t *testing.T) {
	begin := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var nodes []Node
	for n, name := range []string{"a", "b"} {
		d := newDaemon(name)
		d.payload = payload.Content{Services: 1, Dropped: uint64(n)}
		for i := range 3 {
			d.payload.Entries = append(d.payload.Entries, payload.Entry{
				Record: &record.Record{ID: uint64(i), Start: begin.Add(time.Duration(2*i+n) * time.Second)},
				Kept: &payload.Kept{FromClient: payload.Direction{Bytes: 2,
					Parts: []payload.Part{{Data: []byte(fmt.Sprint(name, i))}}}},
			})
		}
		nodes = append(nodes, d.node(t))
	}
	c := adminsocket.NewClientOver("all", Dialer(nodes, Options{}))
	defer c.Close()
	dropped := map[string]uint64{}
	var got []string
	err := c.Payload(t.Context(), adminsocket.PayloadQuery{Last: 4}, func(k adminsocket.PayloadKept) error {
		dropped[k.PortaldNode] = k.Dropped
		return nil
	}, func(p *adminsocket.Payload) error {
		got = append(got, p.PortaldNode+string(p.ClientToEndpoint.Parts[0].Data)+p.Record.PortaldNode)
		return nil
	})
	if d := cmp.Diff([]string{"aa1a", "bb1b", "aa2a", "bb2b"}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, d)
	}
	if d := cmp.Diff(map[string]uint64{"a": 0, "b": 1}, dropped); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
