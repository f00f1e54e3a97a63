package ui

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/browser"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/webui"
)

// hostile is a name that would run if it were taken for HTML, and would be read backwards.
const (
	hostile = `<img src=x onerror=console.error(1)>"';` + "\u202egpj"
	shown   = `<img src=x onerror=console.error(1)>"';\u202egpj`
)

// far is where everything of the hostile node is.
var far = netip.MustParseAddrPort("10.244.9.9:8080")

// many is how many connections it has.
const many = 100_000

// hostileDaemon is a daemon of another node, where everything has that name.
func hostileDaemon() *adminsocket.Daemon {
	d := &adminsocket.Daemon{
		Info: func() adminsocket.Info {
			return adminsocket.Info{Node: "far", Version: hostile, RecordsSince: time.Now().Add(-24 * time.Hour)}
		},
		Services: list(hostileService(), sharedService()), Endpoints: list(hostileEndpoint(), drainedEndpoint()),
		Connections: manyConnections, AddTCP: func(context.Context, []adminsocket.Connection) {},
		Records: connlog.NewStream(16), Changes: changes.NewLog(16),
	}
	d.Records.Observe(hostileRecord())
	d.Changes.Add(changes.Change{Kind: changes.RulesChanged, What: hostile})
	return d
}

func ptr[T any](v T) *T { return &v }

func hostileService() adminsocket.Service {
	return adminsocket.Service{
		Name: "shop/" + hostile, Protocol: "tcp", Mode: "kernel", ModeFrom: "annotation", Endpoints: 1, Usable: 1,
		Frontends: []adminsocket.Frontend{{Address: far, Kind: hostile, Holder: hostile}}, Open: ptr(many),
		Ended: ptr(uint64(9)), Failed: ptr(uint64(3)), Problem: hostile, Problems: []string{hostile},
	}
}

func hostileEndpoint() adminsocket.Endpoint {
	return adminsocket.Endpoint{
		Service: "shop/" + hostile, Protocol: "tcp", Address: far, Pod: "shop/" + hostile, State: "ejected", Open: ptr(many),
		Dials: ptr(uint64(9)), Failures: ptr(uint64(3)), LastError: hostile, LastErrorAt: ptr(time.Now()),
	}
}

// sharedService is one that the other node has, too, and drainedEndpoint is its endpoint.
func sharedService() adminsocket.Service {
	return adminsocket.Service{Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace", ModeFrom: "default",
		Endpoints: 1, Frontends: []adminsocket.Frontend{}}
}

func drainedEndpoint() adminsocket.Endpoint {
	return adminsocket.Endpoint{Service: "shop/cart:http", Protocol: "tcp", Address: far, Pod: "shop/pod9",
		State: "drained", Open: ptr(1), Dials: ptr(uint64(1)), Failures: ptr(uint64(0))}
}

func hostileRecord() *record.Record {
	return &record.Record{
		ID: 1, Start: time.Now(), Client: far, OriginalDst: far, Outcome: record.OutcomeEndpointReset, Error: hostile,
		Service:  service.PortName{Namespace: "shop", Name: hostile, Protocol: inet.TCP},
		Endpoint: service.Endpoint{Addr: far, Pod: "shop/" + hostile},
		Attempts: []record.Attempt{{Endpoint: far, Err: hostile}},
	}
}

func manyConnections(context.Context) iter.Seq[*adminsocket.Connection] {
	now := time.Now()
	return func(yield func(*adminsocket.Connection) bool) {
		for i := range many {
			if !yield(&adminsocket.Connection{ID: uint64(i + 1), Service: "shop/" + hostile, Protocol: "tcp", State: "open",
				Client: far, Endpoint: far, Pod: "shop/" + hostile, Start: now, LastMoved: now, BytesFromClient: int64(i)}) {
				return
			}
		}
	}
}

// list is what a daemon lists of rows with a name.
func list[T any](all ...T) func(context.Context, func(string) bool) iter.Seq[*T] {
	return func(context.Context, func(string) bool) iter.Seq[*T] {
		return func(yield func(*T) bool) {
			for i := range all {
				if !yield(&all[i]) {
					return
				}
			}
		}
	}
}

// daemonAt serves an admin API, or without one accepts and never answers.
func daemonAt(b *bed.Bed, d *adminsocket.Daemon) *adminsocket.Client {
	path := filepath.Join(b.ShortDir(), "admin.sock")
	l, err := adminsocket.Listen(b.Context(), path)
	b.Must(err)
	b.Cleanup(func() { l.Close() })
	if d != nil {
		go func() { _ = http.Serve(l, adminsocket.NewHandler(*d)) }()
	}
	client := adminsocket.NewClient(path)
	b.Cleanup(client.Close)
	return client
}

// pageOf serves the page of several nodes on the node, and returns its origin.
func pageOf(b *bed.Bed, nodes ...webui.Node) string {
	page := webui.New(nodes, 4*time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { page.Watch(ctx); close(ended) }()
	l, err := b.Node.Listen("tcp", "127.0.0.1:0")
	b.Must(err)
	server := &http.Server{Handler: webui.Guard("TOKEN", page)}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { server.Close(); cancel(); <-ended })
	return "http://" + l.Addr().String()
}

// Of several nodes the page has one view: a node that hangs is named, one with 100,000 connections is no burden, and
// names of others are texts.
func TestSeveralNodes(t *testing.T) {
	s := newScene(t)
	origin := pageOf(s.Bed, webui.Node{Client: s.daemon.Admin()}, webui.Node{Client: daemonAt(s.Bed, hostileDaemon())},
		webui.Node{Name: "stuck", Client: daemonAt(s.Bed, nil)})
	w := newBrowser(s.Bed, origin)
	w.Screen(1280, false)
	w.Visit(origin + "/#token=TOKEN")
	s.clients(10, bed.IP4)

	w.Has("td", shown)
	w.Has("tr", "shop/cart:http")
	w.Has("#gone", "1 node not answering, and not in these figures: stuck (no answer within 4s)")
	w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
	w.Has(".matrix th", "shop/pod9")
	w.Has(".matrix td", "◌ drained")
	w.Has(".matrix th", "here")
	w.Shoot("matrix")
	w.Open("#/failures")
	w.Has("td", shown)
	w.Has("tr", "far")
	w.Has("tr", "here")
	w.Run(`[...document.querySelectorAll("button[data-row]")].forEach((b) => b.click())`)
	w.Has(".story", "was dialled: "+shown)
	w.Open("#/connections")
	w.Eventually("the first 200 of 100,000", `document.querySelectorAll("tbody tr").length === 200`)
	w.Has("section", "The first 200 by bytes")
	w.Open("#/nodes")
	w.Has("tr", "✗ no answer within 4s")
	if n := browser.Evaluate[int](w, `document.querySelectorAll("main img, main script").length`); n > 0 {
		t.Errorf("a name has become %d elements", n)
	}
	all := append(slices.Collect(maps.Values(views)), "#/service/"+escaped(w, "shop/"+hostile)+"/tcp")
	for _, width := range []int64{360, 1920} {
		w.Screen(width, true)
		for _, view := range all {
			w.Open(view)
			w.Fits(view)
		}
	}
	if elsewhere, errors := w.Complaints(); len(elsewhere) > 0 || len(errors) > 0 {
		t.Errorf("requests to others %v, errors %v", elsewhere, errors)
	}
}

// escaped is a text as a part of an address.
func escaped(w *browser.Browser, text string) string {
	return browser.Evaluate[string](w, `encodeURIComponent(`+browser.Quote(text)+`)`)
}
