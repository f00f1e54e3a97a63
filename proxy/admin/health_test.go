package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// ask returns the status and the fields of an answer.
func ask(t *testing.T, h http.HandlerFunc) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var fields map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &fields); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	if w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q", w.Header().Get("Content-Type"))
	}
	return w.Code, fields
}

func wantHealth(t *testing.T, h *Health, healthz, livez int) {
	t.Helper()
	if code, _ := ask(t, h.Healthz); code != healthz {
		t.Fatalf("/healthz %d, want %d", code, healthz)
	}
	if code, _ := ask(t, h.Livez); code != livez {
		t.Fatalf("/livez %d, want %d", code, livez)
	}
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(30*time.Second, nil)
		wantHealth(t, h, 503, 200) // starts alive, and not ready
		time.Sleep(time.Hour)
		wantHealth(t, h, 503, 200)
		h.QueuedUpdate()
		h.Updated()
		wantHealth(t, h, 200, 200)
		time.Sleep(time.Hour)
		wantHealth(t, h, 200, 200) // nothing waits
		h.QueuedUpdate()
		time.Sleep(40 * time.Second)
		h.QueuedUpdate() // the oldest counts
		time.Sleep(19 * time.Second)
		wantHealth(t, h, 200, 200)
		time.Sleep(time.Second)
		wantHealth(t, h, 503, 200) // a restart would not help
		time.Sleep(time.Hour)
		wantHealth(t, h, 503, 200)
		h.Updated()
		wantHealth(t, h, 200, 200)
		h.Damaged()
		h.QueuedUpdate()
		h.Updated()                // of what changed
		wantHealth(t, h, 503, 200) // others took rules away
		h.Repaired()
		wantHealth(t, h, 200, 200)
		h.Draining()
		wantHealth(t, h, 503, 200)
	})
}

// What hangs is helped by a restart alone, and gets no traffic until then.
func TestHealthOfWhatHangs(t *testing.T) {
	var hangs error
	h := NewHealth(30*time.Second, nil)
	h.Watch(func() error { return hangs })
	h.Updated()
	wantHealth(t, h, 200, 200)
	hangs = errors.New("a loop has not turned for 61s")
	wantHealth(t, h, 503, 503)
	if h.Serving() {
		t.Error("it serves while it hangs")
	}
	hangs = nil
	wantHealth(t, h, 200, 200)
}

// A Node that is to be deleted gets no new traffic, and yet serves what comes.
func TestHealthOfANodeThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(30*time.Second, nil)
		if h.Serving() {
			t.Error("it serves before the first sync")
		}
		h.Updated()
		h.SetEligible(false)
		wantHealth(t, h, 503, 200)
		if _, got := ask(t, h.Healthz); got["nodeEligible"] != false || got["healthy"] != true {
			t.Errorf("leaving: %v", got)
		}
		if !h.Serving() {
			t.Error("it no longer serves")
		}
		h.SetEligible(true)
		wantHealth(t, h, 200, 200)
		h.QueuedUpdate()
		time.Sleep(time.Minute)
		if h.Serving() {
			t.Error("it serves while a change waits")
		}
		h.Updated()
		h.Draining()
		h.SetEligible(true) // that is not for the Node to say
		wantHealth(t, h, 503, 200)
		if h.Serving() {
			t.Error("it serves new connections while it drains")
		}
	})
}

func TestHealthAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(DefaultLimits(), "IPv4")
		h := NewHealth(30*time.Second, m)
		synced := time.Now()
		h.Updated()
		time.Sleep(time.Minute)
		_, got := ask(t, h.Healthz)
		if got["lastUpdated"] != got["currentTime"] || got["nodeEligible"] != true || got["healthy"] != true ||
			len(got) != 4 {
			t.Errorf("well: %v", got)
		}
		h.QueuedUpdate()
		time.Sleep(time.Minute)
		h.Draining()
		_, got = ask(t, h.Healthz)
		if got["lastUpdated"] != synced.Format(time.RFC3339Nano) || got["nodeEligible"] != false ||
			got["healthy"] != false {
			t.Errorf("ill: %v", got)
		}
		if _, got = ask(t, h.Livez); len(got) != 3 {
			t.Errorf("/livez: %v", got)
		}
		const want = `
# HELP kubeproxy_proxy_healthz_total Answers to /healthz, by status code.
# TYPE kubeproxy_proxy_healthz_total counter
kubeproxy_proxy_healthz_total{code="200"} 1
kubeproxy_proxy_healthz_total{code="503"} 1
`
		if err := testutil.CollectAndCompare(m.healthz, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}
