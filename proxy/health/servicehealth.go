package health

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/httpserver"
)

// MaxCheckConnections is how many connections, each a descriptor, all health-check ports of Services may have together.
const MaxCheckConnections = 128

// ServiceOptions say how the health-check ports of Services are served.
type ServiceOptions struct {
	Log logrus.FieldLogger

	// Failed is called once if the port of a Service cannot be bound at one of the addresses, which is tried again every 5
	// s. It may be called from several goroutines. nil = none.
	Failed func(svc service.Name, err error)

	// Listen binds an address; nil = net.ListenConfig. Its network is tcp, or of one family: tcp4, tcp6.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)

	// Tried is called once: when all that the first Replace asks for was bound, or could not be. nil = none.
	Tried func()
}

// ServiceHealth serves the health-check ports of Services, where load balancers ask whether this node has endpoints of
// them. Safe for concurrent use.
type ServiceHealth struct {
	o      ServiceOptions
	health *Health
	conns  *httpserver.ConnLimit // of all servers together

	mu       sync.Mutex
	services map[service.Name]*checked // guarded by mu
	changed  map[service.Name]struct{} // guarded by mu; whose port has changed since Run last took it
	hosts    []string                  // guarded by mu; where the ports are served, as net.Listen takes it
	moved    bool                      // guarded by mu; the hosts have changed since then
	replaced bool                      // guarded by mu; there was a Replace
	taken    bool                      // guarded by mu; and Run has taken it
	wake     chan struct{}
}

// checked is a Service with a health-check port. All its service ports are kept, since they may share endpoints.
type checked struct {
	ports map[service.PortName]*service.Port
	port  uint16
	local int // ready endpoints on this node
}

// NewServiceHealth returns a ServiceHealth without Services and addresses. While health is not serving, all answers are
// 503.
func NewServiceHealth(o ServiceOptions, health *Health) *ServiceHealth {
	if o.Failed == nil {
		o.Failed = func(service.Name, error) {}
	}
	if o.Listen == nil {
		o.Listen = (&net.ListenConfig{}).Listen
	}
	return &ServiceHealth{
		o: o, health: health, conns: httpserver.NewConnLimit(MaxCheckConnections), services: map[service.Name]*checked{},
		changed: map[service.Name]struct{}{},
		wake:    make(chan struct{}, 1),
	}
}

// SetAddresses sets the addresses of this node where ports are served; an unspecified one stands for all of its family.
// None: nowhere. Servers at other addresses end, and an address that cannot be bound is not tried any more once it is
// not among them.
func (s *ServiceHealth) SetAddresses(addrs []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts := hostsOf(addrs)
	if slices.Equal(hosts, s.hosts) {
		return
	}
	s.hosts, s.moved = hosts, true
	s.wakeUp()
}

// Replace sets all service ports.
func (s *ServiceHealth) Replace(ports []*service.Port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := map[service.Name]uint16{}
	for svc, c := range s.services {
		before[svc] = c.port
	}
	s.services = map[service.Name]*checked{}
	for _, p := range ports {
		if p.HealthCheckPort == 0 {
			continue
		}
		svc := p.Name.Service()
		s.of(svc).ports[p.Name] = p
		if _, had := before[svc]; !had {
			before[svc] = 0
		}
	}
	s.recount(before)
	if !s.replaced {
		s.replaced = true
		s.wakeUp()
	}
}

// Update applies changes of service ports. Costs O(their Services).
func (s *ServiceHealth) Update(changes []service.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := map[service.Name]uint16{}
	for _, c := range changes {
		svc := c.Name.Service()
		if _, noted := before[svc]; !noted {
			before[svc] = s.port(svc)
		}
		if c.Port != nil && c.Port.HealthCheckPort != 0 {
			s.of(svc).ports[c.Name] = c.Port
		} else if known := s.services[svc]; known != nil {
			delete(known.ports, c.Name)
		}
	}
	s.recount(before)
}

// of returns the Service, and adds it if it is new.
func (s *ServiceHealth) of(svc service.Name) *checked {
	c := s.services[svc]
	if c == nil {
		c = &checked{ports: map[service.PortName]*service.Port{}}
		s.services[svc] = c
	}
	return c
}

// port returns the health-check port of a Service, 0 if it has none.
func (s *ServiceHealth) port(svc service.Name) uint16 {
	if c := s.services[svc]; c != nil {
		return c.port
	}
	return 0
}

// recount counts the endpoints of some Services, and wakes Run if the port of one is not what it was before.
func (s *ServiceHealth) recount(before map[service.Name]uint16) {
	for svc, port := range before {
		if c := s.services[svc]; c != nil {
			c.count()
			if len(c.ports) == 0 {
				delete(s.services, svc)
			}
		}
		if s.port(svc) != port {
			s.changed[svc] = struct{}{}
		}
	}
	if len(s.changed) > 0 {
		s.wakeUp()
	}
}

// wakeUp has Run look at what is wanted.
func (s *ServiceHealth) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// count counts the ready endpoints on this node, by address, whatever the number of ports. A pod with addresses of both
// families is one endpoint.
func (c *checked) count() {
	ready := map[netip.Addr]struct{}{}
	v4, v6 := 0, 0
	for _, p := range c.ports {
		c.port = p.HealthCheckPort
		for _, e := range p.Endpoints {
			addr := e.Addr.Addr()
			if _, known := ready[addr]; known || !e.Local || !e.Ready {
				continue
			}
			ready[addr] = struct{}{}
			if addr.Is4() {
				v4++
			} else {
				v6++
			}
		}
	}
	c.local = max(v4, v6)
}

// serviceResponse has the fields of kube-proxy's.
type serviceResponse struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints int  `json:"localEndpoints"`
	Healthy        bool `json:"serviceProxyHealthy"`
}

// handler answers for one Service, at any path: 200 where new connections to it are served by endpoints of this node,
// else 503.
func (s *ServiceHealth) handler(svc service.Name) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		a := serviceResponse{LocalEndpoints: s.localEndpoints(svc), Healthy: s.health.Serving()}
		a.Service.Namespace, a.Service.Name = svc.Namespace, svc.Name
		code := http.StatusServiceUnavailable
		if a.LocalEndpoints > 0 && a.Healthy {
			code = http.StatusOK
		}
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(a.LocalEndpoints))
		httpserver.WriteHeader(w, "application/json", code)
		_ = json.NewEncoder(w).Encode(a) // it cannot fail but for a client that left
	}
}

// localEndpoints returns how many endpoints of a Service are on this node.
func (s *ServiceHealth) localEndpoints(svc service.Name) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.services[svc]; c != nil {
		return c.local
	}
	return 0
}
