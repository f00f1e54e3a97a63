package portal

import "github.com/portald/portald/proxy/service"

// ProxyPort is the local port of a listener of the daemon, to which portals redirect flows, in one address family.
type ProxyPort struct {
	Family   service.IPFamily
	Protocol service.Protocol
	Port     uint16
}
