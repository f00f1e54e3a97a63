package health

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

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/httpserver"
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
	s := NewServiceHealth(ServiceOptions{
		Log: daemon, Failed: func(svc service.Name, err error) { t.Errorf("%s: %v", svc, err) },
	}, healthy())
	s.SetAddresses(addrs("127.0.0.1", "127.0.0.2"))
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

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// Servers follow the addresses: nowhere without any, and those that stay are not touched.
func TestServiceHealthFollowsAddresses(t *testing.T) {
	daemon, _ := test.NewNullLogger()
	var mu sync.Mutex
	bound := map[string]int{}
	s := NewServiceHealth(ServiceOptions{
		Log: daemon, Failed: func(svc service.Name, err error) { t.Errorf("%s: %v", svc, err) },
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			mu.Lock()
			defer mu.Unlock()
			bound[network+" "+address]++
			return (&net.ListenConfig{}).Listen(ctx, network, address)
		},
	}, healthy())
	ports := freePorts(t, 2)
	run(t, s)
	url := func(host string, port uint16) string { return fmt.Sprintf("http://%s:%d/", host, port) }
	old := checkedPort("old", "http", ports[0], at("10.1.1.1:80", "ready", "local"))
	s.Replace([]*service.Port{old})
	eventually(t, url("127.0.0.1", ports[0]), 0, "")
	s.SetAddresses(addrs("127.0.0.1", "127.0.0.2"))
	eventually(t, url("127.0.0.1", ports[0]), 200, `"name":"old"`)
	eventually(t, url("127.0.0.2", ports[0]), 200, `"name":"old"`)
	s.SetAddresses(addrs("127.0.0.2", "127.0.0.3"))
	s.Update([]service.Change{{Name: service.PortName{Namespace: "shop", Name: "new", Port: "http",
		Protocol: inet.TCP}, Port: checkedPort("new", "http", ports[1])}})
	eventually(t, url("127.0.0.1", ports[0]), 0, "")
	for _, host := range []string{"127.0.0.2", "127.0.0.3"} {
		eventually(t, url(host, ports[0]), 200, `"name":"old"`)
		eventually(t, url(host, ports[1]), 503, `"name":"new"`)
	}
	s.SetAddresses(addrs("0.0.0.0", "::1"))
	eventually(t, url("127.0.0.9", ports[0]), 200, `"name":"old"`)
	eventually(t, url("[::1]", ports[1]), 503, `"name":"new"`)
	s.SetAddresses(nil)
	eventually(t, url("127.0.0.9", ports[0]), 0, "")
	eventually(t, url("[::1]", ports[1]), 0, "")
	mu.Lock()
	defer mu.Unlock()
	for _, port := range ports {
		for _, at := range []string{"tcp4 127.0.0.2:%d", "tcp4 0.0.0.0:%d", "tcp6 [::1]:%d"} {
			if at = fmt.Sprintf(at, port); bound[at] != 1 {
				t.Errorf("%s was bound %d times, want once: %v", at, bound[at], bound)
			}
		}
	}
}

// An address that is gone is not tried any more, also for a Service that comes later.
func TestServiceHealthLeavesAddressesThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daemon, _ := test.NewNullLogger()
		var mu sync.Mutex
		tries := map[string]int{}
		s := NewServiceHealth(ServiceOptions{Log: daemon,
			Listen: func(_ context.Context, _, address string) (net.Listener, error) {
				mu.Lock()
				defer mu.Unlock()
				tries[address]++
				return nil, errors.New("cannot assign requested address")
			}}, healthy())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		s.SetAddresses(addrs("192.0.2.1"))
		s.Replace([]*service.Port{checkedPort("cart", "http", 30100)})
		time.Sleep(3*httpserver.RebindEvery + time.Second)
		s.SetAddresses(addrs("192.0.2.2"))
		synctest.Wait()
		mu.Lock()
		before := tries["192.0.2.1:30100"]
		mu.Unlock()
		s.Update([]service.Change{{Name: checkedPort("late", "http", 0).Name, Port: checkedPort("late", "http", 30101)}})
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if before != 4 || tries["192.0.2.1:30100"] != before || tries["192.0.2.1:30101"] != 0 {
			t.Errorf("the address that is gone was tried %v, %d times while it was there", tries, before)
		}
		if tries["192.0.2.2:30100"] < 10 || tries["192.0.2.2:30101"] < 10 {
			t.Errorf("the new address was tried %v", tries)
		}
		mu.Unlock()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// It is told once when all was tried that the first Replace asks for, also if that is nothing.
func TestServiceHealthTellsThatAllWasTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for services := range 3 {
			daemon, _ := test.NewNullLogger()
			var mu sync.Mutex
			tries, told := 0, []int{}
			s := NewServiceHealth(ServiceOptions{Log: daemon,
				Listen: func(context.Context, string, string) (net.Listener, error) {
					mu.Lock()
					defer mu.Unlock()
					tries++
					return nil, errors.New("in use")
				},
				Tried: func() {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, tries)
				},
			}, healthy())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			s.SetAddresses(addrs("192.0.2.1", "192.0.2.2"))
			synctest.Wait()
			var ports []*service.Port
			for i := range services {
				ports = append(ports, checkedPort(fmt.Sprint(i), "http", uint16(30100+i)))
			}
			s.Replace(ports)
			synctest.Wait()
			s.Replace(nil)
			synctest.Wait()
			mu.Lock()
			if len(told) != 1 || told[0] != 2*services {
				t.Errorf("%d Services: told after %v tries, want once after %d", services, told, 2*services)
			}
			mu.Unlock()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// An unspecified address is all of its family, and both are all of both.
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
		s := NewServiceHealth(ServiceOptions{
			Log: daemon,
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
		s.SetAddresses(addrs("127.0.0.1", "127.0.0.2"))
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
		if took := time.Since(start); took != 2*httpserver.RebindEvery {
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
		s := NewServiceHealth(ServiceOptions{Log: daemon,
			Listen: func(context.Context, string, string) (net.Listener, error) {
				tried <- struct{}{}
				return nil, errors.New("in use")
			}}, healthy())
		s.SetAddresses(everywhere())
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
