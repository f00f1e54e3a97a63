//go:build !windows

package netsh

import (
	"fmt"
	"net"
	"net/netip"
)

// HostInterfaces reads the interfaces of this host.
func HostInterfaces() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("read the host's interfaces: %w", err)
	}
	out := make([]Interface, 0, len(all))
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("read the addresses of interface %s: %w", i.Name, err)
		}
		found := Interface{Name: i.Name, Index: i.Index}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				found.Addresses = append(found.Addresses, Address{Prefix: prefix})
			}
		}
		out = append(out, found)
	}
	return out, nil
}
