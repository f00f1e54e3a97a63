package admin

import (
	"encoding/json"
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
		wantHealth(t, h, 503, 503)
		h.Updated()
		wantHealth(t, h, 200, 200)
		h.Draining()
		wantHealth(t, h, 503, 200)
	})
}

func TestHealthAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics("IPv4")
		h := NewHealth(30*time.Second, m)
		synced := time.Now()
		h.Updated()
		time.Sleep(time.Minute)
		_, got := ask(t, h.Healthz)
		if got["lastUpdated"] != got["currentTime"] || got["nodeEligible"] != true || len(got) != 3 {
			t.Errorf("well: %v", got)
		}
		h.QueuedUpdate()
		time.Sleep(time.Minute)
		h.Draining()
		_, got = ask(t, h.Healthz)
		if got["lastUpdated"] != synced.Format(time.RFC3339Nano) || got["nodeEligible"] != false {
			t.Errorf("ill: %v", got)
		}
		if _, got = ask(t, h.Livez); len(got) != 2 {
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
