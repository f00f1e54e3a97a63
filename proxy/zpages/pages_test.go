package zpages

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/recordtest"
	"github.com/portald/portald/proxy/servertest"
)

// options returns the options of a server on a free loopback port, and its address once it is bound.
func options() (httpserver.Options, <-chan string) {
	daemon, _ := test.NewNullLogger()
	listen, at := servertest.Listen()
	return httpserver.Options{Name: "test", Address: "127.0.0.1:0", Log: daemon, Listen: listen}, at
}

// observe counts a record as the data path does.
func observe(m *metrics.Metrics, r *record.Record) { m.Observer(r.Service, nil).Observe(r) }

func TestServerAnswers(t *testing.T) {
	if _, err := kubernetes.NewForConfig(&rest.Config{}); err != nil { // rest_client_* are registered by the first client
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	m := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4", "IPv6")
	observe(m, recordtest.Sample())
	o, at := options()
	stop := servertest.Serve(t, NewServer(o, m, Pages{Mode: "userspace"}))
	url := "http://" + <-at
	for _, tc := range []struct {
		path, contains string
		code           int
	}{
		{"/healthz", "ok", 200},
		{"/proxyMode", "userspace", 200},
		{"/metrics", "portald_connections_total{", 200},
		{"/metrics", "process_open_fds", 200},
		{"/metrics", "go_goroutines", 200},
		{"/metrics", "rest_client_transport_cache_entries", 200},
		{"/metrics", "kubernetes_build_info{", 200},
		{"/metrics/slis", `kubernetes_healthcheck{name="ping",type="healthz"} 1`, 200},
		{"/configz", "", 404},
		{"/debug/pprof/", "", 404},
		{"/debug/pprof/heap", "", 404},
		{"/debug/flags/v", "", 404},
	} {
		if code, body := servertest.Fetch(t, url+tc.path); code != tc.code || !strings.Contains(body, tc.contains) {
			t.Errorf("%s: %d without %q: %.200q", tc.path, code, tc.contains, body)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, had %d", runtime.NumGoroutine(), before)
		}
	}
}

// put sends text to a handler's path.
func put(h http.Handler, path, text string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, path, strings.NewReader(text)))
	return w.Code, w.Body.String()
}

func TestPages(t *testing.T) {
	var verbosity string
	s := handler(metrics.NewMetrics(metrics.DefaultLimits(), "IPv4"), Pages{
		Mode:      "userspace",
		Profiling: true,
		Config: func() map[string]any {
			return map[string]any{"kubeproxy.config.k8s.io": map[string]any{"mode": "userspace"}}
		},
		CommandLine: []string{"portald.test", "--secret=REDACTED"},
		SetVerbosity: func(v string) error {
			if v == "many" {
				return errors.New("not a number")
			}
			verbosity = v
			return nil
		},
	})
	for path, want := range map[string]string{
		"/proxyMode":            "userspace",
		"/configz":              `{"kubeproxy.config.k8s.io":{"mode":"userspace"}}`,
		"/debug/pprof/":         "goroutine",
		"/debug/pprof/heap":     "",
		"/debug/pprof/cmdline":  "portald.test\x00--secret=REDACTED",
		"/debug/pprof/symbol?0": "num_symbols",
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.200q", path, w.Code, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", path)
		}
	}
	if code, _ := put(s, "/debug/flags/v", "4"); code != http.StatusOK || verbosity != "4" {
		t.Errorf("verbosity: %d, and it is %q", code, verbosity)
	}
	for _, bad := range []string{"many", strings.Repeat("4", 65)} {
		if code, body := put(s, "/debug/flags/v", bad); code != http.StatusBadRequest || verbosity != "4" {
			t.Errorf("bad verbosity: %d %q, and it is %q", code, body, verbosity)
		}
	}
	if code, _ := put(s, "/proxyMode", "iptables"); code != http.StatusMethodNotAllowed {
		t.Errorf("a put to /proxyMode: %d", code)
	}
}

// A configuration that cannot be written is an answer too.
func TestConfigzFails(t *testing.T) {
	w := httptest.NewRecorder()
	configz(w, map[string]any{"x": make(chan int)})
	if w.Code != http.StatusInternalServerError || !strings.HasPrefix(w.Body.String(), "write configuration: ") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// A client that does not read its metrics has others get new ones nevertheless.
func TestMetricsAreNewBesideAStuckClient(t *testing.T) {
	m := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4")
	for i := range 300 {
		r := recordtest.Sample()
		r.Service.Name = fmt.Sprint(i)
		m.UpdatePorts([]service.Change{{Name: r.Service,
			Port: &service.Port{Name: r.Service, Endpoints: []service.Endpoint{r.Endpoint}}}})
		observe(m, r)
	}
	o, at := options()
	o.Listen = servertest.SmallBuffers(o.Listen)
	defer servertest.Serve(t, NewServer(o, m, Pages{}))()
	to := <-at
	_, first := servertest.Stuck(t, "127.0.0.1", to, "/metrics")
	if !strings.Contains(first, "200") {
		t.Fatal(first)
	}
	for n := range 3 {
		m.AcceptError("new")
		_, page := servertest.Fetch(t, "http://"+to+"/metrics")
		if want := fmt.Sprintf("portald_accept_errors_total{reason=\"new\"} %d\n", n+1); !strings.Contains(page, want) {
			t.Fatalf("there is no %s", want)
		}
	}
}
