package admin

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/portald/portald/proxy/service"
)

// checkServers serve the health-check port of one Service: one for each address.
type checkServers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
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
		servers.wg.Wait()
	}
	return nil
}

// update stops the servers that are no longer wanted before it starts others: a port may have passed to another
// Service.
func (s *ServiceHealth) update(ctx context.Context, running map[service.Name]*checkServers) {
	ports := s.take()
	var ending []*checkServers
	for svc := range ports {
		if servers := running[svc]; servers != nil {
			servers.cancel()
			ending = append(ending, servers)
			delete(running, svc)
		}
	}
	for _, servers := range ending {
		servers.wg.Wait()
	}
	for svc, port := range ports {
		if port != 0 {
			running[svc] = s.serve(ctx, svc, port)
		}
	}
}

// take returns the ports that changed since the last call, 0 for Services that no longer have one.
func (s *ServiceHealth) take() map[service.Name]uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ports := make(map[service.Name]uint16, len(s.changed))
	for svc := range s.changed {
		ports[svc] = s.port(svc)
	}
	s.changed = map[service.Name]struct{}{}
	return ports
}

func (s *ServiceHealth) serve(ctx context.Context, svc service.Name, port uint16) *checkServers {
	ctx, cancel := context.WithCancel(ctx)
	servers := &checkServers{cancel: cancel}
	var once sync.Once
	failed := func(err error) { once.Do(func() { s.o.Failed(svc, err) }) }
	for _, host := range s.hosts() {
		server := newServer(ServerOptions{
			Name: svc.String() + " health check", Address: net.JoinHostPort(host, strconv.Itoa(int(port))),
			Log: s.o.Log, Failed: failed, Listen: s.o.Listen,
		}, s.handler(svc))
		server.conns = s.conns
		servers.wg.Go(func() {
			if err := server.Run(ctx); err != nil {
				s.o.Log.WithError(err).Warn("The health-check port of a Service is no longer served")
			}
		})
	}
	return servers
}

// hosts returns the addresses in the form of net.Listen; the empty one is all of both families.
func (s *ServiceHealth) hosts() []string {
	if len(s.o.Addresses) == 0 {
		return []string{""}
	}
	var out []string
	for _, a := range s.o.Addresses {
		out = append(out, a.String())
	}
	return out
}
