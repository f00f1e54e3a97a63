package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/service"
)

// freePorts are ports that nobody listens at on loopback addresses.
func freePorts(t *testing.T, n int) (ports []uint16) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, uint16(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// eventually asks until the answer is the status wanted, 0 for none at all, and contains the text.
func eventually(t *testing.T, url string, code int, text string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		got, body := answerOf(client, url)
		if got == code && strings.Contains(body, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %q, want %d %q", url, got, body, code, text)
		}
	}
}

// answerOf is 0 when the connection is refused.
func answerOf(client http.Client, url string) (int, string) {
	resp, err := client.Get(url)
	const windowsRefused = syscall.Errno(10061) // WSAECONNREFUSED
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, windowsRefused) {
		return 0, ""
	}
	if err != nil {
		return -1, err.Error()
	}
	defer resp.Body.Close()
	body := make([]byte, 4096)
	n, _ := resp.Body.Read(body)
	return resp.StatusCode, string(body[:n])
}

// run runs s until the test's end, after which nothing of it may be left.
func run(t *testing.T, s *ServiceHealth) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines, had %d", runtime.NumGoroutine(), before)
			}
		}
	})
}

func TestServiceHealthServes(t *testing.T) {
	daemon, _ := test.NewNullLogger()
	s := NewServiceHealth(ServiceHealthOptions{
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")},
		Log:       daemon,
		Failed:    func(svc service.Name, err error) { t.Errorf("%s: %v", svc, err) },
	}, healthy())
	ports := freePorts(t, 2)
	cart := checkedPort("cart", "http", ports[0], at("10.1.1.1:80", "ready", "local"))
	other := checkedPort("other", "http", ports[1])
	s.Replace([]*service.Port{cart, other}) // nothing runs yet
	run(t, s)
	url := func(host string, port uint16) string { return fmt.Sprintf("http://%s:%d/", host, port) }
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		eventually(t, url(host, ports[0]), 200, `"name":"cart"`)
		eventually(t, url(host, ports[1]), 503, `"name":"other"`)
	}
	eventually(t, url("127.0.0.3", ports[0]), 0, "")

	less := *cart
	less.Endpoints = nil
	s.Update([]service.Change{{Name: cart.Name, Port: &less}})
	eventually(t, url("127.0.0.1", ports[0]), 503, `"localEndpoints":0`)

	// Both change places: neither finds its port taken.
	swapped, swapper := *cart, *other
	swapped.HealthCheckPort, swapper.HealthCheckPort = ports[1], ports[0]
	s.Update([]service.Change{{Name: cart.Name, Port: &swapped}, {Name: other.Name, Port: &swapper}})
	eventually(t, url("127.0.0.2", ports[1]), 200, `"name":"cart"`)
	eventually(t, url("127.0.0.2", ports[0]), 503, `"name":"other"`)

	s.Update([]service.Change{{Name: cart.Name}})
	eventually(t, url("127.0.0.1", ports[1]), 0, "")
	none := *other
	none.HealthCheckPort = 0
	s.Replace([]*service.Port{&none})
	eventually(t, url("127.0.0.1", ports[0]), 0, "")
}

// Without addresses it is all of them, of both families.
func TestServiceHealthServesEverywhere(t *testing.T) {
	s := services(healthy())
	port := freePorts(t, 1)[0]
	run(t, s)
	s.Replace([]*service.Port{checkedPort("cart", "http", port, at("10.1.1.1:80", "ready", "local"))})
	for _, host := range []string{"127.0.0.1", "127.0.0.9", "[::1]"} {
		eventually(t, fmt.Sprintf("http://%s:%d/healthz", host, port), 200, `"localEndpoints":1`)
	}
}

func TestServiceHealthTriesToBindAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daemon, _ := test.NewNullLogger()
		var mu sync.Mutex
		tries, failures := map[string]int{}, []string{}
		bound := make(chan string, 2)
		s := NewServiceHealth(ServiceHealthOptions{
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")},
			Log:       daemon,
			Failed: func(svc service.Name, err error) {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, svc.String()+": "+err.Error())
			},
			Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
				mu.Lock()
				defer mu.Unlock()
				if tries[address]++; tries[address] < 3 {
					return nil, errors.New("in use")
				}
				bound <- address
				return (&net.ListenConfig{}).Listen(ctx, network, "127.0.0.1:0")
			},
		}, healthy())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		start := time.Now()
		s.Replace([]*service.Port{checkedPort("cart", "http", 30100)})
		for range 2 {
			if at := <-bound; at != "127.0.0.1:30100" && at != "127.0.0.2:30100" {
				t.Errorf("bound %s", at)
			}
		}
		if took := time.Since(start); took != 2*rebindEvery {
			t.Errorf("bound after %v", took)
		}
		if len(failures) != 1 || failures[0] != "shop/cart: in use" {
			t.Errorf("told %q", failures)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A Service that goes while its port cannot be bound is not waited for.
func TestServiceHealthGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daemon, _ := test.NewNullLogger()
		tried := make(chan struct{}, 1)
		s := NewServiceHealth(ServiceHealthOptions{Log: daemon,
			Listen: func(context.Context, string, string) (net.Listener, error) {
				tried <- struct{}{}
				return nil, errors.New("in use")
			}}, healthy())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		s.Replace([]*service.Port{checkedPort("cart", "http", 30100)})
		<-tried
		s.Replace(nil)
		time.Sleep(time.Minute)
		select {
		case <-tried:
			t.Error("it tries on")
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
