package platform

import (
	"fmt"
	"os"

	"github.com/portald/portald/platform/inet"
)

// ReservedPorts returns net.ipv4.ip_local_reserved_ports, of both families: ports that the kernel does not choose for
// sockets without a bound port, so that servers can be started there.
func ReservedPorts() ([]inet.PortRange, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_reserved_ports")
	if err != nil {
		return nil, fmt.Errorf("read reserved ports: %w", err)
	}
	ranges, err := inet.ParsePortRanges(string(text))
	if err != nil {
		return nil, fmt.Errorf("read reserved ports: %w", err)
	}
	return ranges, nil
}
