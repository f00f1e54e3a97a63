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

	"github.com/portald/portald/proxy/service"
)

// sockets is how many the daemon opens where the system sets a process no limit that it could reach. The connections
// that they are for are twice as many as there are dynamic ports.
const sockets = 4 * dynamicPorts

// RaiseNoFile returns a limit that the system does not set.
func RaiseNoFile() (soft, hard uint64, err error) { return sockets, sockets, nil }

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

// localAddresses also returns those that are only an interface's of that name: none, since Services have no interface
// of their own here.
func localAddresses(string) (all, there []netip.Addr, err error) {
	all, err = LocalAddresses()
	return all, nil, err
}

// PrimaryAddresses returns the address of each family by which other networks know this host: the one that it would
// send from to an address far away.
func PrimaryAddresses(string) (out []netip.Addr, err error) {
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		c, err := net.Dial("udp", far) // which sends nothing
		if err != nil {
			continue // there is no route
		}
		if at, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil {
			out = append(out, at.Addr().Unmap())
		}
		c.Close()
	}
	return out, nil
}

// Add cannot route marked packets here.
func (Divert) Add(service.IPFamily) error {
	return fmt.Errorf("deliver marked packets on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Remove has nothing to remove here.
func (Divert) Remove(service.IPFamily) error { return nil }

// dynamicPorts is the size of IANA's range of dynamic ports, from 49152 to 65535: the default of Windows.
const dynamicPorts = 16384

// LocalPorts returns the number of ports that the system chooses from by default for sockets without a bound port.
func LocalPorts() (int, error) { return dynamicPorts, nil }

// PipePages is 0: pipes are not used to carry bytes here.
func PipePages() (int, error) { return 0, nil }

// ReservedPorts are none that are known here.
func ReservedPorts() ([]PortSpan, error) { return nil, nil }

// MayMark says that packets cannot be marked here.
func MayMark(uint32) error {
	return fmt.Errorf("mark packets on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Mark says so too.
func Mark(_ uintptr, mark uint32) error { return MayMark(mark) }
