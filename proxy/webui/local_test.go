package webui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// The page of a daemon is for browsers of its host, whoever has them, and for nobody else.
func TestGuardLocal(t *testing.T) {
	handler := GuardLocal(NewLocal(newFake("a").serve(t).Client))
	for _, test := range []struct {
		name, from, host string
		r                *http.Request
		want             int
	}{
		{"the page", "127.0.0.1:4711", "127.0.0.1:10249", request("GET", "/"), 200},
		{"an answer", "127.0.0.1:4711", "localhost:10249", request("GET", "/api/nodes"), 200},
		{"an answer by IPv6", "[::1]:4711", "[::1]:10249", request("GET", "/api/nodes"), 200},
		{"the page's own", "127.0.0.1:4711", "localhost", request("GET", "/api/nodes", "Sec-Fetch-Site", "same-origin"), 200},
		{"what is for root", "127.0.0.1:4711", "localhost", request("GET", "/api/explain?what=shop/cart"), 404},
		{"another host", "10.0.0.1:4711", "127.0.0.1:10249", request("GET", "/api/nodes"), 403},
		{"the page to another host", "10.0.0.1:4711", "127.0.0.1:10249", request("GET", "/"), 403},
		{"a name that resolves to us", "127.0.0.1:4711", "evil.example", request("GET", "/api/nodes"), 403},
		{"another page", "127.0.0.1:4711", "localhost", request("GET", "/api/nodes", "Sec-Fetch-Site", "cross-site"), 403},
		{"another port", "127.0.0.1:4711", "localhost", request("GET", "/api/nodes", "Sec-Fetch-Site", "same-site"), 403},
		{"POST", "127.0.0.1:4711", "localhost", request("POST", "/api/nodes"), 405},
		{"who is not known", "", "localhost", request("GET", "/api/nodes"), 403},
	} {
		test.r.RemoteAddr, test.r.Host = test.from, test.host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, test.r)
		if h := w.Header(); w.Code != test.want || h.Get("Content-Security-Policy") != policy || h.Get("Set-Cookie") != "" ||
			h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, want %d; %v %s", test.name, w.Code, test.want, h, w.Body)
		}
	}
}

// What a page can do it says, so that it offers nothing else.
func TestAbout(t *testing.T) {
	for name, page := range map[string]*Page{
		`{"explain":true}`: New(nil, time.Second), `{"explain":false}`: NewLocal(newFake("a").serve(t).Client),
	} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, request("GET", "/api/about"))
		if got := strings.TrimSpace(w.Body.String()); got != name {
			t.Errorf("%s, want %s", got, name)
		}
	}
}

// While nobody reads the page, the daemon is asked nothing, and nothing is remembered.
func TestWatchForReaders(t *testing.T) {
	a := newFake("a")
	a.services = []adminsocket.Service{cart(1, 0, 0, 3)}
	page := NewLocal(a.serve(t).Client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { page.watchForReaders(ctx, 50*time.Millisecond); close(ended) }()
	remembered := func() int {
		page.cluster.mu.Lock()
		defer page.cluster.mu.Unlock()
		return len(page.cluster.rows)
	}
	for round := range 2 {
		if n := remembered(); n != 0 {
			t.Errorf("round %d: %d rows, and nobody reads", round, n)
		}
		for remembered() == 0 {
			page.ServeHTTP(httptest.NewRecorder(), request("GET", "/api/overview"))
			time.Sleep(time.Millisecond)
		}
		for remembered() > 0 { // until the reader is gone for long enough
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	<-ended
}

// A past takes memory: beyond so many there is none, which is not the same as that nothing failed.
func TestNoRoomForThePast(t *testing.T) {
	a := newFake("a")
	for _, name := range []string{"a", "b", "c"} {
		s := cart(0, 0, 0, 3)
		s.Name = name
		a.services = append(a.services, s)
	}
	c := newCluster([]Node{a.serve(t)}, time.Minute)
	c.limits = limits{rows: 3, active: 2}
	pass(t, c)
	for i := range a.services {
		a.services[i].Ended, a.services[i].Failed = ptr(uint64(9)), ptr(uint64(3))
	}
	pass(t, c)
	o := overviewOf(t, c, "sort=name")
	unknown := func(s *ServiceStatus) bool { return s.Failed == nil && s.Rate == nil && s.P99 == nil }
	if len(o.Services) != 3 || !o.LeftOut || *o.Services[0].Failed != 3 || *o.Services[1].Failed != 3 ||
		!unknown(o.Services[2]) || sum(o.Failed) != 6 {
		t.Errorf("%+v %+v", o, o.Services[2])
	}
	for _, name := range []string{"a", "b"} { // what they have told of is over
		for i := range c.rows[key{name, "tcp"}].past.points {
			c.rows[key{name, "tcp"}].past.points[i].number = 0
		}
		c.rows[key{name, "tcp"}].past.last = 0
	}
	pass(t, c)
	a.services[2].Failed = ptr(uint64(4))
	pass(t, c)
	if got := overviewOf(t, c, "sort=name").Services[2]; c.active != 1 || got.Failed == nil || *got.Failed != 1 {
		t.Errorf("%d of two places are taken; %+v", c.active, got)
	}
	a.services = slices.Delete(a.services, 2, 3)
	if pass(t, c); c.active != 0 {
		t.Errorf("%d places are taken by what is gone", c.active)
	}
}

// However many Services there are and however busy they are, the page of a daemon has its bound of memory.
func TestMemoryOfDaemon(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c := newCluster([]Node{{}}, time.Minute)
	c.limits = ofDaemon
	node, now := c.nodes[0], time.Now()
	for pass := range 2 {
		node.heard = now.Add(time.Duration(pass-1) * interval)
		for i := range ofDaemon.rows + 10_000 {
			s := cart(uint64(pass), 0, 0, 3)
			s.Name = fmt.Sprintf("a-namespace-%d/with-services-%d:http", i%100, i)
			s.FirstByte = &adminsocket.Histogram{BoundsMS: []float64{1, 5, 25, 100, 500, 1000, 5000, 30000},
				Counts: []uint64{uint64(pass), 0, 0, 0, 0, 0, 0, 0, 0}}
			c.take(node, &s)
		}
	}
	for _, r := range c.rows { // each has all that it may have
		for i := range intervals {
			if r.past != nil {
				r.past.at(now.Add(-time.Duration(i) * interval)).firstByte = make([]uint64, 9)
			}
		}
	}
	took := heap() - before
	t.Logf("%d rows, %d with a past: %d MB", c.told, c.active, took>>20)
	if c.told != ofDaemon.rows || c.active != ofDaemon.active || !c.leftOut || took > 64<<20 {
		t.Errorf("%d rows, %d with a past, %d MB, others said to be left out: %v", c.told, c.active, took>>20, c.leftOut)
	}
	runtime.KeepAlive(c)
}
