package userspace

import "github.com/portald/portald/platform/inet"

// ProxyPortsInUse is how many proxy ports of a protocol have a listener, of the Size of Options.Ports. It may be called
// from any goroutine.
func (c *Carrier) ProxyPortsInUse(p inet.Protocol) int {
	return int(c.ports.pools[p].listening.Load())
}

// BusiestEndpoint is how many TCP connections the endpoint has that has the most. It may be called from any goroutine.
func (c *Carrier) BusiestEndpoint() int { return c.endpoints.Busiest(inet.TCP) }
