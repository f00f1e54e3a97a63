//go:build !windows

package platform

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

// ChangeAddress is for Windows.
func ChangeAddress(uint64, netip.Addr, bool) error {
	return fmt.Errorf("change an address on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
