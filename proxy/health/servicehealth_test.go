package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/recordtest"
)

// healthy is the health of a proxy that serves.
func healthy() *Health {
	h := New(1<<62, nil)
	h.Updated()
	return h
}

// services has health-check ports for load balancers, on loopback addresses.
func services(h *Health) *ServiceHealth {
	daemon, _ := test.NewNullLogger()
	s := NewServiceHealth(ServiceOptions{Log: daemon}, h)
	s.SetAddresses(everywhere())
	return s
}

// everywhere is all addresses of both families.
// at is an endpoint.
var at = recordtest.Endpoint

func everywhere() []netip.Addr { return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} }

// checkedPort is a service port whose Service has a health-check port.
func checkedPort(svc, port string, check uint16, endpoints ...service.Endpoint) *service.Port {
	return &service.Port{
		Name:            service.PortName{Namespace: "shop", Name: svc, Port: port, Protocol: inet.TCP},
		Endpoints:       endpoints,
		ExternalLocal:   true,
		HealthCheckPort: check,
	}
}

// check asks for a Service as a load balancer does.
func check(t *testing.T, s *ServiceHealth, svc string) (code, endpoints int, healthy bool) {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler(service.Name{Namespace: "shop", Name: svc})(w, httptest.NewRequest(http.MethodGet, "/any/path", nil))
	var a struct {
		Service             struct{ Namespace, Name string }
		LocalEndpoints      int
		ServiceProxyHealthy bool
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	if a.Service.Namespace != "shop" || a.Service.Name != svc {
		t.Errorf("answered for %v", a.Service)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff",
		"X-Load-Balancing-Endpoint-Weight": fmt.Sprint(a.LocalEndpoints)} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	return w.Code, a.LocalEndpoints, a.ServiceProxyHealthy
}

func TestServiceHealthAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	s := services(healthy())
	s.Replace([]*service.Port{checkedPort("cart", "http", 30100, at("10.1.1.1:80", "ready", "local"))})
	s.handler(service.Name{Namespace: "shop", Name: "cart"})(w, httptest.NewRequest(http.MethodGet, "/", nil))
	const want = `{"service":{"namespace":"shop","name":"cart"},"localEndpoints":1,"serviceProxyHealthy":true}`
	if got := w.Body.String(); got != want+"\n" || w.Code != http.StatusOK {
		t.Errorf("%d %s, want 200 %s", w.Code, got, want)
	}
}

func TestServiceHealthCounts(t *testing.T) {
	here, there := at("10.1.1.1:80", "ready", "local"), at("10.1.0.1:80", "ready")
	for _, c := range []struct {
		name  string
		ports []*service.Port
		code  int
		here  int
	}{
		{"none", []*service.Port{checkedPort("cart", "http", 30100)}, 503, 0},
		{"elsewhere", []*service.Port{checkedPort("cart", "http", 30100, there)}, 503, 0},
		{"one here", []*service.Port{checkedPort("cart", "http", 30100, there, here)}, 200, 1},
		{"not ready", []*service.Port{checkedPort("cart", "http", 30100, at("10.1.1.1:80", "local"))}, 503, 0},
		{"draining", []*service.Port{checkedPort("cart", "http", 30100, at("10.1.1.1:80", "draining", "local"))}, 503, 0},
		{"one with two ports", []*service.Port{
			checkedPort("cart", "http", 30100, here),
			checkedPort("cart", "https", 30100, at("10.1.1.1:443", "ready", "local")),
		}, 200, 1},
		{"one ready by one of its ports", []*service.Port{
			checkedPort("cart", "http", 30100, at("10.1.1.1:80", "local"), at("10.1.1.2:80", "ready", "local")),
			checkedPort("cart", "https", 30100, at("10.1.1.1:443", "ready", "local")),
		}, 200, 2},
		{"one with two families", []*service.Port{
			checkedPort("cart", "http", 30100, here, at("[fd00::1]:80", "ready", "local")),
		}, 200, 1},
		{"IPv6 alone", []*service.Port{checkedPort("cart", "http", 30100, at("[fd00::1]:80", "ready", "local"))}, 200, 1},
		{"another Service's", []*service.Port{
			checkedPort("cart", "http", 30100), checkedPort("other", "http", 30101, here),
		}, 503, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := services(healthy())
			s.Replace(c.ports)
			if code, here, healthy := check(t, s, "cart"); code != c.code || here != c.here || !healthy {
				t.Errorf("%d with %d endpoints, healthy %v, want %d with %d", code, here, healthy, c.code, c.here)
			}
		})
	}
}

// Nobody is sent here before the first sync, nor while connections drain; a Node that is to go serves until it does.
func TestServiceHealthIsOfTheProxyToo(t *testing.T) {
	h := New(1<<62, nil)
	s := services(h)
	s.Replace([]*service.Port{checkedPort("cart", "http", 30100, at("10.1.1.1:80", "ready", "local"))})
	want := func(when string, code int) {
		t.Helper()
		if got, here, healthy := check(t, s, "cart"); got != code || here != 1 || healthy != (code == 200) {
			t.Errorf("%s: %d with %d endpoints, healthy %v", when, got, here, healthy)
		}
	}
	want("before the first sync", 503)
	h.Updated()
	want("after it", 200)
	h.SetEligible(false)
	want("on a Node that is to go", 200)
	h.Draining()
	want("draining", 503)
}

// state is which ports are to be served, and with how many endpoints.
func (s *ServiceHealth) state() string {
	out := map[service.Name]string{}
	for svc, c := range s.services {
		out[svc] = fmt.Sprintf("%d: %d", c.port, c.local)
	}
	return fmt.Sprint(out)
}

// Any sequence of updates ends in what a replacement by the last state would, and moves the ports of no other Service.
func TestServiceHealthByUpdates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s, last := services(healthy()), map[service.PortName]*service.Port{}
	served := map[service.Name]uint16{}
	for range 500 {
		svc := fmt.Sprint(rng.IntN(4))
		check := uint16(rng.IntN(3)) // of the Service: all its ports change at a time
		if check > 0 {
			check += 30000 + uint16(svc[0])
		}
		var changes []service.Change
		for _, port := range []string{"http", "https"} {
			p := checkedPort(svc, port, check, at("10.1.1.1:80", "ready", "local"), at("10.1.1.2:80", "ready", "local"))
			p.Endpoints = p.Endpoints[:rng.IntN(3)]
			c := service.Change{Name: p.Name, Port: p}
			delete(last, p.Name)
			if rng.IntN(3) == 0 {
				c.Port = nil
			} else {
				last[p.Name] = p
			}
			changes = append(changes, c)
		}
		whole := services(healthy())
		var ports []*service.Port
		for _, p := range last {
			ports = append(ports, p)
		}
		whole.Replace(ports)
		if rng.IntN(10) == 0 {
			s.Replace(ports)
		} else {
			s.Update(changes)
		}
		if got, want := s.state(), whole.state(); got != want {
			t.Fatalf("after %v: %s, want %s", changes, got, want)
		}
		for name, port := range s.take().ports {
			if name.Name != svc || served[name] == port {
				t.Fatalf("%s moves from %d to %d with a change of %s", name, served[name], port, svc)
			}
			served[name] = port
		}
		maps.DeleteFunc(served, func(_ service.Name, port uint16) bool { return port == 0 })
		if len(served) != len(s.services) {
			t.Fatalf("served %v, want those of %s", served, s.state())
		}
	}
}

// One change among many Services costs what the Service costs, not what all of them do.
func BenchmarkServiceHealthUpdate(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, m, ports := services(healthy()), metrics.NewMetrics(metrics.DefaultLimits(), "IPv4", "IPv6"), []*service.Port{}
			for i := range n {
				ports = append(ports, checkedPort(fmt.Sprint(i), "http", uint16(i+1), at("10.1.0.1:80", "ready")))
			}
			s.Replace(ports)
			m.ReplacePorts(ports)
			s.take()
			states := [2]*service.Port{checkedPort("7", "http", 8, at("10.1.1.1:80", "ready", "local")), ports[7]}
			for i := 0; b.Loop(); i++ {
				changes := []service.Change{{Name: ports[7].Name, Port: states[i%2]}}
				s.Update(changes)
				m.UpdatePorts(changes)
			}
		})
	}
}
