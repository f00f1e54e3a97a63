//go:build !linux

package reach

import "net/netip"

// PathTo knows nothing on this system.
func PathTo(netip.Addr, uint32) Path { return Path{} }
