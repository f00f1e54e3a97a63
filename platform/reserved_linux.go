package platform

import (
	"fmt"
	"os"
	"strings"
)

// ReservedPorts are those that the host's administrator keeps from sockets that ask for no certain one
// (net.ipv4.ip_local_reserved_ports, for both families), for servers to be started there.
func ReservedPorts() ([]PortSpan, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_reserved_ports")
	if err != nil {
		return nil, fmt.Errorf("read reserved ports: %w", err)
	}
	return parseSpans(strings.TrimSpace(string(text)))
}
