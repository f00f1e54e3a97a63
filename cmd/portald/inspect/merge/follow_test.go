package merge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

func TestRecordsAreFollowed(t *testing.T) {
	a, b := newDaemon("a"), newDaemon("b")
	for i := range int64(3) {
		a.records.Observe(ended(uint64(i), 10*i))
	}
	var failed failures
	c := client(t, Options{Wait: time.Second, Failed: failed.add}, a.node(t), b.node(t), silent(t, "mute"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := []string{}
	err := c.Records(ctx, adminsocket.RecordQuery{Last: 1, Follow: true}, func(l *connlog.Line) error {
		got = append(got, fmt.Sprint(l.PortaldNode, l.ID))
		switch len(got) {
		case 1: // the past is there: what ended later on one node was recorded first
			b.records.Observe(&record.Record{ID: 8, Start: time.Now(), Outcome: record.OutcomeOK, Duration: time.Hour})
			a.records.Observe(&record.Record{ID: 7, Start: time.Now(), Outcome: record.OutcomeOK, Duration: time.Minute})
		case 3:
			cancel()
		}
		return nil
	}, func(adminsocket.Gap) error { return nil })
	if want := []string{"a2", "a7", "b8"}; !errors.Is(err, context.Canceled) || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got := failed.get(); !slices.Equal(got, []string{"mute: no answer in time: within 1s"}) {
		t.Errorf("reported %q", got)
	}
}

// A node that is lost is taken up where it was: no record is missing and none comes twice, unless the daemon is another
// one. Nodes that join are read too.
func TestLostNodesAreFollowedAgain(t *testing.T) {
	a, b, late := newDaemon("a"), newDaemon("b"), newDaemon("late")
	for _, d := range []*daemon{a, b, late} {
		d.records = connlog.NewStream(64)
	}
	nodeA, place := movable(t, a)
	joins := late.node(t)
	var failed failures
	var mu sync.Mutex
	resumed := make(chan Resumption, 10)
	nodes := []Node{nodeA, b.node(t)}
	c := client(t, Options{Failed: failed.add, Resumed: func(r Resumption) { resumed <- r }, Relist: 50 * time.Millisecond,
		List: func(context.Context) ([]Node, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(nodes), nil
		}}, nodes...)
	got := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Records(ctx, adminsocket.RecordQuery{Follow: true}, func(l *connlog.Line) error {
			got <- fmt.Sprint(l.PortaldNode, l.ID)
			return nil
		}, func(adminsocket.Gap) error { return nil })
	}()
	now := func(id uint64) *record.Record {
		return &record.Record{ID: id, Start: time.Now(), Outcome: record.OutcomeOK}
	}
	want := func(what string) {
		t.Helper()
		if one := <-got; one != what {
			t.Fatalf("got %s, want %s", one, what)
		}
	}
	for followed := false; !followed; { // until then records are of the past
		a.records.Observe(now(1))
		select {
		case <-got:
			followed = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	a.records.Observe(now(2))
	for one := ""; one != "a2"; {
		one = <-got
	}

	place.leave()
	b.records.Observe(now(3))
	want("b3")
	a.records.Observe(now(4))
	place.come(t, a)
	want("a4")
	if r := <-resumed; r != (Resumption{Node: "a"}) {
		t.Errorf("after a connection was lost: %+v", r)
	}
	a.records.Observe(now(5))
	want("a5")

	place.leave()
	a.records.Observe(now(6))                          // nobody will read it
	for last := time.Now(); !time.Now().After(last); { // a coarse clock has to tick
		time.Sleep(time.Millisecond)
	}
	next := newDaemon("a")
	place.come(t, next)
	r := <-resumed
	if r.Node != "a" || r.From.IsZero() || !r.To.After(r.From) || r.To.After(time.Now()) {
		t.Errorf("after a daemon was replaced: %+v", r)
	}
	next.records.Observe(now(7))
	want("a7")
	mu.Lock()
	nodes = append(nodes, joins)
	mu.Unlock()
	late.records.Observe(now(8))
	for one := ""; one != "late9"; { // what was before it was found is past
		late.records.Observe(now(9))
		select {
		case one = <-got:
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if all := failed.get(); len(all) != 2 || !strings.HasPrefix(all[0], "a: portald is not reachable any more") {
		t.Errorf("reported %q", all)
	}
}

// Lines of one time stay as they came: a coarse clock has many, and a gap has the time of the line before it.
func TestLinesOfOneTimeKeepTheirOrder(t *testing.T) {
	var f follower
	var want, got []string
	at := time.Now()
	for i := range 50 {
		text := fmt.Sprintf(`{"id":%d}`, i)
		want = append(want, text)
		if err := f.hold(line{at: at, text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	for len(f.held) > 0 {
		got = append(got, string(f.pop().text))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// movable is a node whose daemon goes, and comes again.
func movable(t *testing.T, d *daemon) (Node, *place) {
	p := &place{}
	p.come(t, d)
	return Node{d.name, adminsocket.NewClientOver(d.name, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", p.address.Load().(string))
	})}, p
}

// place is where a daemon is reached.
type place struct {
	address atomic.Value
	server  *httptest.Server
}

func (p *place) come(t *testing.T, d *daemon) {
	p.server = httptest.NewServer(d.handler())
	t.Cleanup(p.server.CloseClientConnections)
	p.address.Store(p.server.Listener.Addr().String())
}

// leave ends all connections; nobody answers then.
func (p *place) leave() {
	p.address.Store("127.0.0.1:1")
	p.server.CloseClientConnections()
}

// A stream that breaks off in a record is read again, and its part of a record is none.
func TestPartOfARecordIsNone(t *testing.T) {
	a := newDaemon("a")
	whole := a.handler()
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/records" && broken.CompareAndSwap(false, true) {
			w.Header().Set(adminsocket.HeaderVersion, adminsocket.Version)
			fmt.Fprint(w, `{"time":"2026-11-28T03:12:00Z","id":7,"serv`)
			return
		}
		whole.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	resumed := make(chan Resumption, 1)
	c := client(t, Options{Resumed: func(r Resumption) { resumed <- r }}, nodeAt("a", server.Listener.Addr().String()))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-resumed
		a.records.Observe(&record.Record{ID: 8, Start: time.Now(), Outcome: record.OutcomeOK})
	}()
	got := []uint64{}
	err := c.Records(ctx, adminsocket.RecordQuery{Follow: true}, func(l *connlog.Line) error {
		got = append(got, l.ID)
		cancel()
		return nil
	}, func(adminsocket.Gap) error { return nil })
	if !errors.Is(err, context.Canceled) || !slices.Equal(got, []uint64{8}) {
		t.Errorf("records %v, %v", got, err)
	}
}
