package doctor

import (
	"fmt"
	"strings"
)

// The names of sysctls that are read.
const (
	ipForward4    = "net.ipv4.ip_forward"
	ipForward6    = "net.ipv6.conf.all.forwarding"
	routeLocalnet = "net.ipv4.conf.all.route_localnet"
	bridgeNF4     = "net.bridge.bridge-nf-call-iptables"
	bridgeNF6     = "net.bridge.bridge-nf-call-ip6tables"
	earlyDemux    = "net.ipv4.tcp_early_demux"
	localRange    = "net.ipv4.ip_local_port_range"
	reservedPorts = "net.ipv4.ip_local_reserved_ports"
	pipePages     = "fs.pipe-user-pages-soft"
	openFiles     = "fs.file-nr"
)

// sysctl returns a value, or why it is not known.
func (f *Facts) sysctl(name string) (string, error) {
	fact, read := f.Sysctls[name]
	if !read {
		return "", fmt.Errorf("%s was not read", name)
	}
	return strings.TrimSpace(fact.Value), fact.Err
}
