package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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
	stopMetrics := served(t, NewMetricsServer(metrics, exercised(t), "userspace"))
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

func TestServerTriesToBindAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, at := options()
		daemon, told := test.NewNullLogger()
		o.Log = daemon
		real, tries := o.Listen, 0
		o.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
			if tries++; tries < 4 {
				return nil, errors.New("address already in use")
			}
			return real(ctx, network, address)
		}
		start := time.Now()
		stop := served(t, NewHealthServer(o, NewHealth(time.Minute, nil)))
		<-at
		if took := time.Since(start); took != 15*time.Second {
			t.Errorf("bound after %v", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		const want = "cannot bind test server, trying again every 5s\ntest server is bound to 127.0.0.1:0 now"
		if messages(told) != want {
			t.Errorf("told %q", messages(told))
		}
	})
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
	err = newServer(o, nil).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bind test server: ") {
		t.Errorf("error %v", err)
	}
}

func TestServerWithoutAddressIsOff(t *testing.T) {
	if err := newServer(ServerOptions{}, nil).Run(t.Context()); err != nil {
		t.Error(err)
	}
}
