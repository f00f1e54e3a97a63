//go:build !linux && !windows

package splicetest

import (
	"net/netip"
	"testing"
)

// silent is an address that does not answer, which this system has no known way to make on the loopback interface.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	t.Skip("no address of this system is certain not to answer")
	return netip.AddrPort{}
}
