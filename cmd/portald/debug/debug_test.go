package debug

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/record"
)

// fakeService is the Service in the API server. Daemons follow it, as theirs do by a watch.
type fakeService struct {
	mu      sync.Mutex
	value   string
	version int
	err     error                // of each request
	meddle  func(f *fakeService) // is called before a patch, which then conflicts; once
	changed []string             // all values that there were
}

func (f *fakeService) Annotation(context.Context, string, string, string) (value, version string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, fmt.Sprint(f.version), f.err
}

func (f *fakeService) Annotate(_ context.Context, _, _, version, key, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if meddle := f.meddle; meddle != nil {
		f.meddle = nil
		meddle(f)
	}
	switch {
	case f.err != nil:
		return f.err
	case key != annotation:
		return errors.New("another annotation")
	case version != fmt.Sprint(f.version):
		return fmt.Errorf("annotate: %w", cluster.ErrChanged)
	}
	f.set(value)
	return nil
}

// set sets the value; f.mu is locked.
func (f *fakeService) set(value string) {
	f.value = value
	f.version++
	f.changed = append(f.changed, value)
}

func (f *fakeService) debugged() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return deadline(f.value).After(time.Now())
}

// bed is nodes that follow a Service, and one session.
type bed struct {
	*testing.T
	svc     *fakeService
	records map[string]*connlog.Stream
	servers []*httptest.Server
	refuse  map[string]string // the problem of a node that does not follow
	report  explain.Report
	nodes   []*node
}

func newBed(t *testing.T, nodes ...string) *bed {
	b := &bed{T: t, svc: &fakeService{}, records: map[string]*connlog.Stream{}, refuse: map[string]string{},
		report: explain.Report{What: "shop/cart", As: "userspace", Sections: []explain.Section{{Title: "Mode"}},
			Verdict: explain.Line{Status: explain.Doubt, Text: "As userspace, something changes."}}}
	for _, name := range nodes {
		b.records[name] = connlog.NewStream(64)
		history := changes.NewLog(16)
		server := httptest.NewServer(adminsocket.NewHandler(adminsocket.Daemon{
			Info: func() adminsocket.Info { return adminsocket.Info{Node: name} },
			Flip: func(context.Context, string, string) (*explain.Report, error) {
				r := b.report
				r.Node, r.Time = name, time.Now()
				return &r, nil
			},
			Services: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Service] { return b.serving(name) },
			Records:  b.records[name],
			Changes:  history,
		}))
		history.Add(changes.Change{Time: time.Now().Add(time.Minute), Kind: changes.ModeChanged, Old: "kernel",
			New: "userspace", Service: service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}})
		t.Cleanup(server.CloseClientConnections)
		b.servers = append(b.servers, server)
		b.nodes = append(b.nodes, &node{Name: name, client: adminsocket.NewClientOver(name,
			func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
			})})
	}
	return b
}

func (b *bed) serving(name string) iter.Seq[*adminsocket.Service] {
	s := &adminsocket.Service{Name: "shop/cart:http", Protocol: "tcp", Mode: "kernel", ModeFrom: "default",
		Frontends: []adminsocket.Frontend{{Target: "spread"}}, Open: new(2)}
	switch problem := b.refuse[name]; {
	case problem != "":
		s.Problems = []string{problem}
	case b.svc.debugged():
		s.Mode, s.ModeFrom, s.Frontends[0].Target = "userspace", "debug", "redirect"
	}
	return func(yield func(*adminsocket.Service) bool) { yield(s) }
}

// ended is a connection that ends now.
func (b *bed) ended(on string, outcome record.Outcome, pod string) {
	r := &record.Record{
		ID: 7, CarriedBy: record.Userspace,
		Service:  service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
		Client:   netip.MustParseAddrPort("10.244.1.7:40000"),
		Endpoint: service.Endpoint{Addr: netip.MustParseAddrPort("10.244.2.9:8080"), Pod: pod, Node: "worker-2"},
		Start:    time.Now(), Outcome: outcome, CloseType: record.FIN, ClosedBy: record.Client,
		Attempts: []record.Attempt{{Endpoint: netip.MustParseAddrPort("10.244.2.9:8080"), Took: time.Millisecond}},
	}
	if outcome == record.OutcomeEndpointReset {
		r.CloseType, r.ClosedBy = record.Reset, record.Endpoint
	}
	b.records[on].Observe(r)
}

// output is what a session prints, which others may read meanwhile.
type output struct {
	mu sync.Mutex
	bytes.Buffer
	on map[string]func() // is called once, when that text has come
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.Buffer.Write(p)
	for text, do := range o.on {
		if strings.Contains(o.Buffer.String(), text) {
			delete(o.on, text)
			go do()
		}
	}
	return n, err
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.String()
}

// run runs a session; on has what to do once it has printed a text on standard error.
func (b *bed) run(ctx context.Context, o options, on map[string]func()) (out, errOut string, err error) {
	s, outs := b.session(o, on)
	err = s.run(ctx)
	return outs[0].text(), outs[1].text(), err
}

func (b *bed) session(o options, on map[string]func()) (*session, [2]*output) {
	outs := [2]*output{{}, {on: on}}
	if o.output == "" {
		o.output = outputText
	}
	s := &session{options: o, name: service.Name{Namespace: "shop", Name: "cart"}, services: b.svc,
		in: strings.NewReader(""), out: outs[0], errOut: outs[1]}
	for _, n := range b.nodes {
		s.nodes = append(s.nodes, &node{Name: n.Name, client: n.client})
	}
	for _, word := range o.outcomes {
		if err := s.awaited.Add(false, "outcome", word, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	return s, outs
}

const follows = "Records follow"

func (b *bed) has(text string, parts ...string) {
	b.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.Errorf("%q is not in\n%s", part, text)
		}
	}
}

func (b *bed) backAgain() {
	b.Helper()
	if b.svc.value != "" || b.svc.debugged() {
		b.Errorf("the annotation is %q", b.svc.value)
	}
}

// A session sets the annotation, prints the records of all nodes, ends with the outcome that is awaited, and takes the
// annotation back. The summary has what was seen.
func TestUntilOutcome(t *testing.T) {
	b := newBed(t, "a", "b")
	out, errOut, err := b.run(t.Context(), options{lasts: time.Hour, yes: true, outcomes: []string{"endpoint_reset"}},
		map[string]func(){follows: func() {
			b.ended("a", record.OutcomeOK, "shop/cart-1")
			b.ended("b", record.OutcomeEndpointReset, "shop/cart-2")
		}})
	if err != nil {
		t.Fatal(err)
	}
	b.backAgain()
	b.has(errOut, "As userspace, something changes.", "2 of 2 nodes carry it in userspace mode",
		"It ends: a connection had the outcome endpoint_reset.")
	b.has(out, " b shop/cart:http tcp 10.244.1.7:40000", "endpoint_reset",
		"1 failed. It ended: a connection had", "Who reset whom", "endpoint   endpoint_reset   10.244.2.9:8080   shop/cart-2",
		"carried by kernel, now by userspace", "a, b", "4 connections open at the end", "debugged, and as before now")
	if len(b.svc.changed) != 2 || time.Until(deadline(b.svc.changed[0])) > time.Hour {
		t.Errorf("the annotation was %q", b.svc.changed)
	}
}

// The end of the time, and Ctrl-C, end it too; the summary is JSON if it is asked for.
func TestEnds(t *testing.T) {
	b := newBed(t, "a")
	out, errOut, err := b.run(t.Context(), options{lasts: time.Second, yes: true, output: outputJSON}, nil)
	b.has(errOut, "It ends: after 1s.")
	var sum Summary
	if err = errors.Join(err, json.Unmarshal([]byte(out), &sum)); err != nil || sum.EndedBy != "after 1s" ||
		sum.Outcomes == nil || sum.Nodes[0].Name != "a" {
		t.Errorf("%v: %s", err, out)
	}
	b.backAgain()
	ctx, stop := context.WithCancel(t.Context())
	_, errOut, err = b.run(ctx, options{lasts: time.Hour, yes: true}, map[string]func(){follows: stop})
	b.has(errOut, "It ends: by Ctrl-C.")
	if err != nil {
		t.Error(err)
	}
	b.backAgain()
}

// Of two callers the one with the later time holds. The first to end takes nothing from the other.
func TestTwoCallers(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second time.Duration
		says          string
	}{
		{"the second is longer", time.Minute, time.Hour, "the later time, "},
		{"the second is shorter", time.Hour, time.Minute, "that time holds, and stays"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, "a")
			ctx, stop := context.WithCancel(t.Context())
			following := make(chan struct{})
			first, firstOut := b.session(options{lasts: c.first, yes: true}, map[string]func(){
				follows: func() { close(following) }})
			firstEnds := make(chan error, 1)
			go func() { firstEnds <- first.run(ctx) }()
			<-following
			inner, stopInner := context.WithCancel(t.Context())
			second, secondOut := b.session(options{lasts: c.second, yes: true}, map[string]func(){follows: stopInner})
			if err := second.run(inner); err != nil {
				t.Error(err)
			}
			b.has(secondOut[1].text(), "Another session debugs the Service until ", c.says)
			if !b.svc.debugged() || b.svc.value != first.own {
				t.Errorf("the first, until %s, goes on until %q", first.own, b.svc.value)
			}
			stop()
			if err := <-firstEnds; err != nil {
				t.Error(err)
			}
			b.has(firstOut[1].text(), "It ends: by Ctrl-C")
			b.backAgain()
		})
	}
	b := newBed(t, "a")
	_, errOut, err := b.run(t.Context(), options{lasts: time.Second, yes: true}, map[string]func(){follows: func() {
		b.svc.mu.Lock()
		defer b.svc.mu.Unlock()
		b.svc.set(time.Now().Add(time.Hour).Format(time.RFC3339))
	}})
	if b.has(errOut, "is not this session's any more"); err != nil || !b.svc.debugged() {
		t.Errorf("the other one is ended: %v", err)
	}
}

// Who changes the Service at the same time costs another attempt, and nothing of theirs is lost.
func TestConflict(t *testing.T) {
	b := newBed(t, "a")
	other := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	b.svc.meddle = func(f *fakeService) { f.set(other) }
	_, errOut, err := b.run(t.Context(), options{lasts: time.Second, yes: true}, nil)
	if b.has(errOut, "that time holds, and stays"); err != nil || b.svc.value != other {
		t.Errorf("%q: %v", b.svc.value, err)
	}
}

// Without the cluster the session ends, says that the nodes end it by themselves, and has a summary nevertheless.
func TestLostConnection(t *testing.T) {
	b := newBed(t, "a", "b")
	out, errOut, err := b.run(t.Context(), options{lasts: time.Hour, yes: true}, map[string]func(){follows: func() {
		b.svc.mu.Lock()
		b.svc.err = errors.New("no route to host")
		b.svc.mu.Unlock()
		for _, s := range b.servers {
			s.Listener.Close()
			s.CloseClientConnections()
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "each node ends it by itself at") {
		t.Errorf("the error is %v", err)
	}
	b.has(errOut, "From a is no record any more", "From b is no record any more", "the connection to all nodes was lost")
	b.has(out, "0 connections", "The annotation could not be taken back")
}

// Nothing is changed before somebody has agreed, nor if no node follows.
func TestAsksFirst(t *testing.T) {
	b := newBed(t, "a")
	_, _, err := b.run(t.Context(), options{lasts: time.Hour}, nil)
	if err == nil || !strings.Contains(err.Error(), "--yes goes on") {
		t.Errorf("without a terminal: %v", err)
	}
	s, outs := b.session(options{lasts: time.Hour}, nil)
	s.interactive, s.in = true, strings.NewReader("n\n")
	if err := s.run(t.Context()); err != nil {
		t.Error(err)
	}
	b.has(outs[1].text(), "Carry shop/cart in userspace mode for 1h0m0s? [y/N] ")
	b.report.Meaning = []string{"connections begin with a PROXY protocol header"}
	s, _ = b.session(options{lasts: time.Hour}, nil)
	s.interactive, s.in = true, strings.NewReader("y\n")
	if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "PROXY protocol header; if endpoints") {
		t.Errorf("a header begins: %v", err)
	}
	if len(b.svc.changed) > 0 {
		t.Errorf("it was changed: %q", b.svc.changed)
	}
	b.refuse["a"] = "metadata.annotations[portald.io/debug-until]: is refused on this node"
	_, errOut, err := b.run(t.Context(), options{lasts: time.Hour, yes: true}, nil)
	b.has(errOut, "a does not follow: ")
	if err == nil || !strings.Contains(err.Error(), "is refused on this node") {
		t.Errorf("no node follows: %v", err)
	}
	b.backAgain()
	b.report.Sections = nil
	if _, _, err := b.run(t.Context(), options{lasts: time.Hour, yes: true}, nil); err == nil ||
		!strings.Contains(err.Error(), "no node knows Service shop/cart") {
		t.Errorf("a Service that is not there: %v", err)
	}
}

// What tenants write does no harm on a page or a terminal.
func TestHostileNames(t *testing.T) {
	const hostile = "x\"><script>alert(1)</script>&'\x1b[31m\u202e"
	b := newBed(t, "a")
	out, _, err := b.run(t.Context(), options{lasts: time.Hour, yes: true, outcomes: []string{"failed"}},
		map[string]func(){follows: func() { b.ended("a", record.OutcomeEndpointReset, hostile) }})
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, "<script>") {
		t.Errorf("on a terminal:\n%q", out)
	}
	sum := newSummary(service.Name{Namespace: "shop", Name: hostile}, time.Now())
	sum.EndedBy, sum.Notes = hostile, []string{hostile}
	sum.add(&connlog.Line{Outcome: record.OutcomeEndpointReset, CloseType: record.Reset, Pod: hostile, Node: hostile,
		ClientPod: hostile, Error: hostile, Service: hostile, Client: netip.MustParseAddrPort("10.244.1.7:1"),
		Endpoint: netip.MustParseAddrPort("10.244.2.9:8080"), PortaldNode: hostile})
	sum.addChange(hostile, &changes.Line{Text: hostile})
	sum.finish([]*node{{Name: hostile, State: hostile}})
	page := sum.document().html()
	if strings.Contains(page, "<script") || strings.Contains(page, `x">`) || strings.ContainsAny(page, "\x1b\u202e") {
		t.Errorf("on a page:\n%s", page)
	}
	if n := strings.Count(page, "&lt;script&gt;"); n < 10 {
		t.Errorf("%d names are on the page:\n%s", n, page)
	}
	for _, tag := range []string{"table", "section", "div", "p", "h2", "td", "tr"} {
		if opened, closed := strings.Count(page, "<"+tag+">")+strings.Count(page, "<"+tag+" "),
			strings.Count(page, "</"+tag+">"); opened != closed {
			t.Errorf("%d of %s are opened, %d closed", opened, tag, closed)
		}
	}
}

// Percentiles are of the times that were, by the nearest rank.
func TestTimes(t *testing.T) {
	var few, many Times
	if few.text(99) != "-" {
		t.Error(few.text(99))
	}
	for i := range 10 {
		few.add(float64(i + 1))
	}
	for i := range 100_000 {
		many.add(float64(i % 1000))
	}
	p50, _ := few.percentile(50)
	p99, _ := few.percentile(99)
	if p50 != 5 || p99 != 10 {
		t.Errorf("p50 %v, p99 %v of 1 to 10", p50, p99)
	}
	p50, _ = many.percentile(50)
	if len(many.kept) != mostTimes || many.n != 100_000 || many.most != 999 || p50 < 420 || p50 > 580 {
		t.Errorf("p50 %v of %d, kept %d, most %v", p50, many.n, len(many.kept), many.most)
	}
}

// A Service with very many clients takes a bounded memory, and what is left out is said.
func TestListsAreBounded(t *testing.T) {
	sum := newSummary(service.Name{Namespace: "shop", Name: "cart"}, time.Now())
	for i := range 3 * mostKept {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80)
		sum.add(&connlog.Line{Client: at, Endpoint: at, Outcome: record.OutcomeDialFailed})
	}
	sum.finish(nil)
	if len(sum.Clients) != mostKept || len(sum.Endpoints) != mostKept || len(sum.Failures) != mostFailures ||
		sum.Connections != 3*mostKept || sum.LeftOut != 4*mostKept {
		t.Errorf("%d clients, %d endpoints, %d failures, %d left out", len(sum.Clients), len(sum.Endpoints),
			len(sum.Failures), sum.LeftOut)
	}
	if text := sum.document().text(); !strings.Contains(text, "they have no room for 4000 more") {
		t.Error(text)
	}
}
