//go:build !linux

package platform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
)

// RaiseDescriptors cannot raise anything here.
func RaiseDescriptors() (soft, hard uint64, err error) {
	return 0, 0, fmt.Errorf("raise the limit of open descriptors on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// DeleteUDP has no connection table to delete from here.
func DeleteUDP(context.Context, func(dst, replySrc netip.AddrPort) bool) (deleted int, err error) {
	return 0, fmt.Errorf("delete UDP flows on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// LocalAddresses returns the addresses of the host's interfaces of both families in order, loopback included.
func LocalAddresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list local addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}
