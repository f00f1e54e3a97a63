package httpserver

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxPages is how many clients may wait for a large page, or read one, at a time.
const maxPages = 8

// LargePage serves a page of many megabytes that takes a moment to make, such as the metrics of 10,000 Services. One is
// made at a time, so that clients take no more than one CPU. A client that does not read holds the page as it is sent,
// and nothing of what it was made from; when there are more clients, of those from the address with the most of them
// the one that came first is cut.
type LargePage struct {
	handler http.Handler
	turn    chan struct{} // who is in it makes a page

	mu   sync.Mutex
	open []*pageClient // guarded by mu, in the order in which they came
}

// pageClient is one request.
type pageClient struct {
	from       netip.Addr
	cancel     context.CancelFunc
	connection *http.ResponseController
}

// NewLargePage returns a handler of what h makes.
func NewLargePage(h http.Handler) *LargePage {
	return &LargePage{handler: h, turn: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (l *LargePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &pageClient{cancel: cancel, connection: http.NewResponseController(w)}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.from = from.Addr().Unmap()
	}
	l.enter(c)
	defer l.leave(c)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		Text(w, http.StatusServiceUnavailable, "too many ask for this page at a time\n")
		return
	}
	page := l.make(r.WithContext(ctx))
	maps.Copy(w.Header(), page.header)
	w.Header().Set("Content-Length", strconv.Itoa(page.body.Len()))
	w.WriteHeader(max(page.status, http.StatusOK))
	_, _ = w.Write(page.body.Bytes()) // it fails only for a client that left or was cut
}

// make makes the page, and ends the turn.
func (l *LargePage) make(r *http.Request) *page {
	defer func() { <-l.turn }()
	p := &page{header: http.Header{}}
	l.handler.ServeHTTP(p, r)
	return p
}

func (l *LargePage) enter(c *pageClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) >= maxPages {
		l.cutOne()
	}
	l.open = append(l.open, c)
}

// cutOne is called with mu held.
func (l *LargePage) cutOne() {
	count := map[netip.Addr]int{}
	for _, c := range l.open {
		count[c.from]++
	}
	first := 0
	for i, c := range l.open {
		if count[c.from] > count[l.open[first].from] {
			first = i
		}
	}
	c := l.open[first]
	c.cancel()
	_ = c.connection.SetWriteDeadline(time.Now()) // the write under way fails
	l.open = slices.Delete(l.open, first, first+1)
}

func (l *LargePage) leave(c *pageClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(other *pageClient) bool { return other == c })
}

// page is an answer in memory. It implements http.ResponseWriter.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(code int)        { p.status = code }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
