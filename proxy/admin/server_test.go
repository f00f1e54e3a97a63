package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"
)

// options returns those of a server on a free loopback port, and where it is to be found once it is bound.
func options() (ServerOptions, <-chan string) {
	daemon, _ := test.NewNullLogger()
	at := make(chan string, 1)
	return ServerOptions{Name: "test", Address: "127.0.0.1:0", Log: daemon,
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			if err == nil {
				at <- l.Addr().String()
			}
			return l, err
		}}, at
}

// served runs the server; the function returned ends it and returns Run's error.
func served(t *testing.T, s *Server) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServersAnswer(t *testing.T) {
	before := runtime.NumGoroutine()
	h := NewHealth(time.Minute, nil)
	h.Updated()
	health, healthAt := options()
	metrics, metricsAt := options()
	stopHealth := served(t, NewHealthServer(health, h))
	stopMetrics := served(t, NewMetricsServer(metrics, exercised(t), Pages{Mode: "userspace"}))
	healthURL, metricsURL := "http://"+<-healthAt, "http://"+<-metricsAt
	for _, tc := range []struct {
		url, contains string
		code          int
	}{
		{healthURL + "/healthz", `"nodeEligible":true`, 200},
		{healthURL + "/livez", `"currentTime"`, 200},
		{healthURL + "/metrics", "", 404},
		{metricsURL + "/healthz", "ok", 200},
		{metricsURL + "/proxyMode", "userspace", 200},
		{metricsURL + "/metrics", "portald_connections_total{", 200},
		{metricsURL + "/metrics", "process_open_fds", 200},
		{metricsURL + "/metrics", "go_goroutines", 200},
		{metricsURL + "/metrics", "rest_client_transport_cache_entries", 200},
		{metricsURL + "/metrics", "kubernetes_build_info{", 200},
		{metricsURL + "/metrics/slis", `kubernetes_healthcheck{name="ping",type="healthz"} 1`, 200},
		{metricsURL + "/configz", "", 404},
		{metricsURL + "/debug/pprof/", "", 404},
		{metricsURL + "/debug/pprof/heap", "", 404},
		{metricsURL + "/debug/flags/v", "", 404},
	} {
		if code, body := fetch(t, tc.url); code != tc.code || !strings.Contains(body, tc.contains) {
			t.Errorf("%s: %d %.200q", tc.url, code, body)
		}
	}
	h.Draining()
	if code, _ := fetch(t, healthURL+"/healthz"); code != 503 {
		t.Errorf("/healthz %d while draining", code)
	}
	if err := errors.Join(stopHealth(), stopMetrics()); err != nil {
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
	s := NewMetricsServer(ServerOptions{}, NewMetrics(DefaultLimits(), "IPv4"), Pages{
		Mode:      "userspace",
		Profiling: true,
		Config: func() map[string]any {
			return map[string]any{"kubeproxy.config.k8s.io": map[string]any{"mode": "userspace"}}
		},
		CommandLine: []string{"admin.test", "--secret=REDACTED"},
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
		"/debug/pprof/cmdline":  "admin.test\x00--secret=REDACTED",
		"/debug/pprof/symbol?0": "num_symbols",
	} {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.200q", path, w.Code, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", path)
		}
	}
	if code, _ := put(s.handler, "/debug/flags/v", "4"); code != http.StatusOK || verbosity != "4" {
		t.Errorf("verbosity: %d, and it is %q", code, verbosity)
	}
	for _, bad := range []string{"many", strings.Repeat("4", 65)} {
		if code, body := put(s.handler, "/debug/flags/v", bad); code != http.StatusBadRequest || verbosity != "4" {
			t.Errorf("bad verbosity: %d %q, and it is %q", code, body, verbosity)
		}
	}
	if code, _ := put(s.handler, "/proxyMode", "iptables"); code != http.StatusMethodNotAllowed {
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

func TestServerCutsWhoWillNotEnd(t *testing.T) {
	o, at := options()
	began := make(chan struct{})
	stop := served(t, newServer(o, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})))
	c, err := net.Dial("tcp", <-at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	start := time.Now()
	if err := stop(); err != nil || time.Since(start) > 5*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
}

// deaf is a listener that nobody reaches, and that synctest knows to wait.
type deaf struct{ closed chan struct{} }

func (d deaf) Accept() (net.Conn, error) { <-d.closed; return nil, net.ErrClosed }
func (d deaf) Close() error              { close(d.closed); return nil }
func (d deaf) Addr() net.Addr            { return &net.TCPAddr{} }

func TestServerTriesToBindAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := options()
		daemon, told := test.NewNullLogger()
		o.Log = daemon
		var failures []error
		o.Failed = func(err error) { failures = append(failures, err) }
		start, took, tries := time.Now(), time.Duration(0), 0
		o.Listen = func(context.Context, string, string) (net.Listener, error) {
			if tries++; tries < 4 {
				return nil, errors.New("address already in use")
			}
			took = time.Since(start)
			return deaf{make(chan struct{})}, nil
		}
		stop := served(t, NewHealthServer(o, NewHealth(time.Minute, nil)))
		time.Sleep(time.Minute)
		synctest.Wait()
		if took != 15*time.Second {
			t.Errorf("bound after %v", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(failures) != 1 {
			t.Errorf("told %v, want one", failures)
		}
		const want = "cannot bind test server, trying again every 5s\ntest server is bound to 127.0.0.1:0 now"
		if messages(told) != want {
			t.Errorf("told %q", messages(told))
		}
	})
}

// messages returns what the daemon's log was told, one line each.
func messages(told *test.Hook) string {
	var out []string
	for _, e := range told.AllEntries() {
		out = append(out, e.Message)
	}
	return strings.Join(out, "\n")
}

func TestServerEndsWhileItCannotBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := options()
		o.Listen = func(context.Context, string, string) (net.Listener, error) { return nil, errors.New("no") }
		stop := served(t, newServer(o, nil))
		time.Sleep(12 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestServerFailsHard(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o, _ := options()
	o.Address, o.HardFail, o.Listen = taken.Addr().String(), true, nil
	var told error
	o.Failed = func(err error) { told = err }
	err = newServer(o, nil).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bind test server: ") {
		t.Errorf("error %v", err)
	}
	if !errors.Is(err, told) {
		t.Errorf("told %v", told)
	}
}

func TestServerWithoutAddressIsOff(t *testing.T) {
	if err := newServer(ServerOptions{}, nil).Run(t.Context()); err != nil {
		t.Error(err)
	}
}
