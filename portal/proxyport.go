package portal

import "github.com/portald/portald/platform/inet"

// ProxyPort is the local port of a listener of the daemon, to which portals redirect flows, in one address family.
type ProxyPort struct {
	Family   inet.Family
	Protocol inet.Protocol
	Port     uint16
}
