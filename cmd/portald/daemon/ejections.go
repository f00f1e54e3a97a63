package daemon

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/changes"
)

// ejections writes the ejections of endpoints into the history.
type ejections struct {
	endpoints *balance.Endpoints
	store     *service.Store
	history   *changes.Log
}

func (e ejections) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case one := <-e.endpoints.EjectionEvents():
			e.history.Add(e.change(one))
		}
		if n := e.endpoints.MissedEjections(); n > 0 {
			e.history.Add(changes.Change{Kind: changes.LeftOut,
				What: fmt.Sprintf("%d more ejections of endpoints, or ends of these, are left out before this", n)})
		}
	}
}

func (e ejections) change(of balance.EjectionEvent) changes.Change {
	c := changes.Change{
		Time: of.Time, Kind: changes.EndpointEjected, Service: of.Name, Endpoint: of.Addr, Pod: e.podAt(of.Name, of.Addr),
	}
	if of.Back {
		c.Kind = changes.EndpointBack
		return c
	}
	c.New = fmt.Sprintf("%s: %v", of.Why, of.Err)
	return c
}

// podAt names the pod of an endpoint, if the Service has it and it is one.
func (e ejections) podAt(name service.PortName, at netip.AddrPort) string {
	p := e.store.Port(name)
	if p == nil {
		return ""
	}
	for i := range p.Endpoints {
		if p.Endpoints[i].Addr == at {
			return p.Endpoints[i].Pod
		}
	}
	return ""
}
