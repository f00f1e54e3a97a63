package webui

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// apiPath begins the paths of what the page asks for.
const apiPath = "/api/"

// atOnce is how many questions are answered at a time: anybody on the host may open connections, and the browser has
// several.
const atOnce = 4

// look is how often each node is asked.
const look = 2 * time.Second

//go:embed page
var files embed.FS

// Page serves the page, and what it asks for.
type Page struct {
	cluster *cluster
	mux     *http.ServeMux
	places  chan struct{}
	readers readers
}

// New returns the page of nodes, each of which has a name or is asked for it, and may take so long for one answer.
func New(nodes []Node, wait time.Duration) *Page {
	p := newPage(newCluster(nodes, wait), About{Explain: true})
	p.answer("explain", p.cluster.explain)
	return p
}

// ofDaemon are the limits of a page in a daemon, which has memory for what it carries: what is remembered takes some
// 60 MB at most.
var ofDaemon = limits{rows: 50_000, active: 4000}

// ofDaemonWait is for one answer of the daemon to itself.
const ofDaemonWait = 10 * time.Second

// NewLocal returns the page of one daemon, which serves it itself: it remembers less, and explains nothing, which is
// for root.
func NewLocal(client *adminsocket.Client) *Page {
	c := newCluster([]Node{{Client: client}}, ofDaemonWait)
	c.limits = ofDaemon
	return newPage(c, About{})
}

// About is what the page itself can do.
type About struct {
	Explain bool `json:"explain"`
}

func newPage(c *cluster, about About) *Page {
	p := &Page{cluster: c, mux: http.NewServeMux(), places: make(chan struct{}, atOnce), readers: newReaders()}
	for name, question := range map[string]question{
		"overview": c.overview, "service": c.service, "connections": c.connections, "endings": c.endings, "nodes": c.nodesNow,
		"about": func(context.Context, url.Values) (any, error) { return about, nil },
	} {
		p.answer(name, question)
	}
	p.addFiles()
	return p
}

// question is what the page asks for.
type question func(context.Context, url.Values) (any, error)

func (p *Page) answer(name string, q question) { p.mux.Handle("GET "+apiPath+name, p.inTurn(q)) }

// kinds are the types of the files, by the ends of their names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// addFiles serves what the page is made of.
func (p *Page) addFiles() {
	entries, err := files.ReadDir("page")
	if err != nil {
		panic(err) // they are in the program
	}
	for _, e := range entries {
		serve := func(w http.ResponseWriter, _ *http.Request) {
			text, _ := files.ReadFile("page/" + e.Name()) // it is in the program
			w.Header().Set("Content-Type", kinds[path.Ext(e.Name())])
			_, _ = w.Write(text)
		}
		p.mux.HandleFunc("GET /"+e.Name(), serve)
		if e.Name() == "index.html" {
			p.mux.HandleFunc("GET /{$}", serve)
		}
	}
}

// Watch asks each node again and again, for what changes all the time, until ctx ends.
func (p *Page) Watch(ctx context.Context) { p.cluster.watch(ctx, look) }

// WatchForReaders is Watch while somebody reads the page, and for as long afterwards as it shows of the past. Then
// nothing is asked and nothing remembered.
func (p *Page) WatchForReaders(ctx context.Context) { p.watchForReaders(ctx, past) }

func (p *Page) watchForReaders(ctx context.Context, quiet time.Duration) {
	for p.readers.await(ctx) {
		p.cluster.forget()
		reading, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { p.cluster.watch(reading, look) })
		p.readers.awaitEnd(ctx, quiet)
		cancel()
		wg.Wait()
		p.cluster.forget()
	}
}

// ServeHTTP implements http.Handler. Guard is for who may ask.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// inTurn answers a question once fewer are being answered.
func (p *Page) inTurn(q question) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.readers.here()
		select {
		case p.places <- struct{}{}:
			defer func() { <-p.places }()
		case <-r.Context().Done():
			return
		}
		it, err := q(r.Context(), r.URL.Query())
		switch {
		case err == nil:
			respond(w, http.StatusOK, it)
		case errors.Is(err, adminsocket.ErrNotReachable), errors.Is(err, adminsocket.ErrPermission):
			respond(w, http.StatusBadGateway, failure{err.Error()})
		default:
			respond(w, http.StatusBadRequest, failure{err.Error()})
		}
	})
}

type failure struct {
	Error string `json:"error"`
}

func respond(w http.ResponseWriter, status int, it any) {
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(it)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded"}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(printable.JSON(text)) // it fails only for a client that left
}
