//go:build !linux

package platform

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/portald/portald/platform/inet"
)

func errNoTranslation() error {
	return fmt.Errorf("look up the original destination on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// OriginalDst knows of no translation here.
func OriginalDst(int, inet.Family) (netip.AddrPort, error) {
	return netip.AddrPort{}, errNoTranslation()
}

// ConntrackTable knows of no translation here.
type ConntrackTable struct{}

// NewConntrackTable returns a ConntrackTable.
func NewConntrackTable() *ConntrackTable { return &ConntrackTable{} }

// OriginalDstUDP knows of no translation here.
func (*ConntrackTable) OriginalDstUDP(_, _ netip.AddrPort) (netip.AddrPort, error) {
	return netip.AddrPort{}, errNoTranslation()
}

// Close has nothing to close.
func (*ConntrackTable) Close() {}
