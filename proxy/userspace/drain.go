package userspace

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
)

// Endpoints are the endpoints of all service ports that are carried here, and what connections report of them. Any
// goroutine may use them.
func (c *Carrier) Endpoints() *balance.Endpoints { return c.endpoints }

// renewDrains ends the drains of endpoints whose pods are gone.
func (c *Carrier) renewDrains(p *service.Port) {
	c.drainsEnded(p.Name, c.endpoints.Renew(p.Name, p.Endpoints), "its pod is gone")
}

// endDrains ends the drains of a service port that is no longer carried here.
func (c *Carrier) endDrains(left service.Change) {
	why := "its Service is gone"
	if left.Port != nil {
		why = "the kernel carries its Service now"
	}
	c.drainsEnded(left.Name, c.endpoints.UndrainAll(left.Name), why)
}

func (c *Carrier) drainsEnded(name service.PortName, endpoints []netip.AddrPort, why string) {
	for _, at := range endpoints {
		c.opts.Log.WithField("service", name.Label()).WithField("endpoint", at.String()).
			Warn("Endpoint undrained: ")
	}
}
