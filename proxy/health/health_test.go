package health

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/servertest"
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
		h := New(30*time.Second, nil)
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

// A daemon that hangs is helped only by a restart, and gets no traffic until then.
func TestHealthOfWhatHangs(t *testing.T) {
	var hangs error
	h := New(30*time.Second, nil)
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
		h := New(30*time.Second, nil)
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

func TestServerAnswers(t *testing.T) {
	h := New(time.Minute, nil)
	h.Updated()
	daemon, _ := test.NewNullLogger()
	listen, at := servertest.Listen()
	stop := servertest.Serve(t, NewServer(
		httpserver.Options{Name: "health", Address: "127.0.0.1:0", Log: daemon, Listen: listen}, h))
	url := "http://" + <-at
	for _, tc := range []struct {
		path, contains string
		code           int
	}{
		{"/healthz", `"nodeEligible":true`, 200},
		{"/livez", `"currentTime"`, 200},
		{"/metrics", "", 404},
	} {
		if code, body := servertest.Fetch(t, url+tc.path); code != tc.code || !strings.Contains(body, tc.contains) {
			t.Errorf("%s: %d %.200q", tc.path, code, body)
		}
	}
	h.Draining()
	if code, _ := servertest.Fetch(t, url+"/healthz"); code != 503 {
		t.Errorf("/healthz %d while draining", code)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHealthAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4")
		h := New(30*time.Second, m)
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
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	})
}
