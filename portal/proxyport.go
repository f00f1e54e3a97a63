package portal

import "github.com/portald/portald/proxy/service"

// ProxyPort is a local port at which a listener of the daemon waits for what portals lead there, in one address family.
type ProxyPort struct {
	Family   service.IPFamily
	Protocol service.Protocol
	Port     uint16
}
