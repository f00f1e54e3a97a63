package httpserver

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portald/portald/proxy/servertest"
)

// Clients that do not read hold a few pages and no more, and keep no other address out. One page is made at a time.
func TestStuckClientsAreBounded(t *testing.T) {
	o, at := options()
	o.Listen = servertest.SmallBuffers(o.Listen)
	var making, most atomic.Int32
	l := NewLargePage(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), making.Add(1)))
		defer making.Add(-1)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}))
	defer servertest.Serve(t, New(o, l))()
	to := <-at
	other, _ := servertest.Stuck(t, "127.0.0.3", to, "/")
	for range 5 * maxPages {
		servertest.Stuck(t, "127.0.0.2", to, "/")
		l.mu.Lock()
		if n := len(l.open); n > maxPages {
			t.Errorf("%d pages are held", n)
		}
		l.mu.Unlock()
	}
	if code, text := servertest.Fetch(t, "http://"+to); code != 200 || len(text) != 1<<20 {
		t.Errorf("another address: %d and %d bytes", code, len(text))
	}
	if rest, err := io.Copy(io.Discard, io.LimitReader(other, 1<<20)); rest != 1<<20 {
		t.Errorf("an address with one client, which was slow: %d bytes, %v", rest, err)
	}
	if most.Load() != 1 {
		t.Errorf("%d pages at a time were made", most.Load())
	}
}
