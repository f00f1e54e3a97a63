package userspace

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Bound returns a function that tells which endpoint a client of a service port is bound to by affinity. Any goroutine
// may call both.
func (c *Carrier) Bound(name service.PortName) func(service.Scope, netip.Addr) (netip.AddrPort, bool) {
	return func(scope service.Scope, client netip.Addr) (netip.AddrPort, bool) {
		c.mu.Lock()
		f := c.fronts[frontKey{name, inet.FamilyOf(client)}]
		c.mu.Unlock()
		if f == nil {
			return netip.AddrPort{}, false
		}
		return f.balancers[scope].Bound(client)
	}
}
