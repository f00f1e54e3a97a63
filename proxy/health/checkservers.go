package health

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/httpserver"
)

// checkServers serve the health-check port of one Service: one for each host.
type checkServers struct {
	svc    service.Name
	port   uint16
	failed func(error)
	at     map[string]*checkServer // by host
}

// checkServer is one of them, until it is cancelled.
type checkServer struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// stop stops the servers at all hosts but these, and returns what tells that they have ended.
func (c *checkServers) stop(except ...string) (ending []<-chan struct{}) {
	for host, server := range c.at {
		if !slices.Contains(except, host) {
			server.cancel()
			ending = append(ending, server.ended)
			delete(c.at, host)
		}
	}
	return ending
}

// Run serves the health-check ports of all Services that have one, until ctx ends.
func (s *ServiceHealth) Run(ctx context.Context) error {
	running := map[service.Name]*checkServers{}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wake:
			s.update(ctx, running)
		}
	}
	for _, servers := range running {
		for _, ended := range servers.stop() {
			<-ended
		}
	}
	return nil
}

// update stops the servers that are no longer wanted before it starts others: a port may have passed to another
// Service. It costs O(the Services whose port has changed), and O(all) when the node's addresses have.
func (s *ServiceHealth) update(ctx context.Context, running map[service.Name]*checkServers) {
	want := s.take()
	var ending []<-chan struct{}
	for svc := range want.ports {
		if servers := running[svc]; servers != nil {
			ending = append(ending, servers.stop()...)
			delete(running, svc)
		}
	}
	if want.moved {
		for _, servers := range running {
			ending = append(ending, servers.stop(want.hosts...)...)
		}
	}
	for _, ended := range ending {
		<-ended
	}
	var tried sync.WaitGroup
	for svc, port := range want.ports {
		if port != 0 {
			running[svc] = s.newCheckServers(svc, port)
			s.serve(ctx, running[svc], want.hosts, &tried)
		}
	}
	if want.moved {
		for _, servers := range running {
			s.serve(ctx, servers, want.hosts, &tried)
		}
	}
	tried.Wait()
	if want.first && s.o.Tried != nil {
		s.o.Tried()
	}
}

// wanted has the ports that Run has not seen yet.
type wanted struct {
	ports map[service.Name]uint16 // that have changed; 0: the Service no longer has one
	hosts []string
	moved bool // the hosts have changed
	first bool // it is the first one of Replace
}

// take returns what has changed since the last call.
func (s *ServiceHealth) take() wanted {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := wanted{make(map[service.Name]uint16, len(s.changed)), s.hosts, s.moved, s.replaced && !s.taken}
	for svc := range s.changed {
		out.ports[svc] = s.port(svc)
	}
	s.changed, s.moved, s.taken = map[service.Name]struct{}{}, false, s.replaced
	return out
}

func (s *ServiceHealth) newCheckServers(svc service.Name, port uint16) *checkServers {
	var once sync.Once
	failed := func(err error) { once.Do(func() { s.o.Failed(svc, err) }) }
	return &checkServers{svc, port, failed, map[string]*checkServer{}}
}

// serve starts the servers at those hosts that have none yet. Tried waits until each has tried to bind.
func (s *ServiceHealth) serve(ctx context.Context, servers *checkServers, hosts []string, tried *sync.WaitGroup) {
	for _, host := range hosts {
		if servers.at[host] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		running := &checkServer{cancel, make(chan struct{})}
		servers.at[host] = running
		tried.Add(1)
		triedOnce := sync.OnceFunc(tried.Done)
		server := httpserver.New(httpserver.Options{
			Name: servers.svc.String() + " health check", Address: net.JoinHostPort(host, strconv.Itoa(int(servers.port))),
			Log: s.o.Log, Failed: servers.failed, Limit: s.conns,
			Listen: func(ctx context.Context, _, address string) (net.Listener, error) {
				defer triedOnce()
				return s.o.Listen(ctx, networkOf(host), address)
			},
		}, s.handler(servers.svc))
		go func() {
			defer close(running.ended)
			defer triedOnce()
			if err := server.Run(ctx); err != nil {
				s.o.Log.WithError(err).Warn("The health check port of a Service is no longer served")
			}
		}()
	}
}

// hostsOf returns addresses in the form of net.Listen. The empty host is all of both families, by one listener.
func hostsOf(addrs []netip.Addr) (out []string) {
	for _, a := range addrs {
		out = append(out, a.String())
	}
	all := func(host string) bool { return host == "0.0.0.0" || host == "::" }
	if slices.Contains(out, "0.0.0.0") && slices.Contains(out, "::") {
		out = append(slices.DeleteFunc(out, all), "")
	}
	return out
}

// networkOf returns the network that listens at a host alone: of an unspecified address net.Listen takes both families.
func networkOf(host string) string {
	switch {
	case host == "":
		return "tcp"
	case strings.Contains(host, ":"):
		return "tcp6"
	}
	return "tcp4"
}
