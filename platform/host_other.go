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
	"strings"

	"github.com/portald/portald/platform/inet"
)

// sockets is how many the daemon opens where the system sets a process no limit that it could reach. The connections
// that they are for are twice as many as there are dynamic ports.
const sockets = 4 * dynamicPorts

// RaiseNoFile returns a limit that the system does not set.
func RaiseNoFile() (soft, hard uint64, err error) { return sockets, sockets, nil }

// DeleteFlows has no connection table to delete from here.
func DeleteFlows(context.Context, inet.FlowQuery, func(inet.Flow) bool) (deleted int, err error) {
	return 0, fmt.Errorf("delete flows on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// XTables has no table to look at here.
func XTables(inet.Family, string) (XTablesSize, error) {
	return XTablesSize{}, fmt.Errorf("size of a table of iptables on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Parent is of processes that change rules, which have none here.
func Parent(string, int) string { return "" }

// LocalAddresses returns the addresses of the host's interfaces of both families in order, loopback included.
func LocalAddresses() ([]netip.Addr, error) {
	all, _, err := localAddresses("")
	return all, err
}

// localAddresses also returns, of these, those by which others know this host, as LocalSet.Node has them. On the
// interface of that name addresses without a network are Services'.
func localAddresses(without string) (all, node []netip.Addr, err error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, nil, fmt.Errorf("list local addresses: %w", err)
	}
	services, err := servicesOn(without)
	if err != nil {
		return nil, nil, err
	}
	for _, prefix := range prefixesOf(addrs) {
		addr := prefix.Addr().Unmap()
		all = append(all, addr)
		if _, is := services[addr]; !is && addr.IsGlobalUnicast() {
			node = append(node, addr)
		}
	}
	for _, addrs := range [][]netip.Addr{all, node} {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return slices.Compact(all), slices.Compact(node), nil
}

// servicesOn returns the addresses without a network of the interface of that name, in which capital letters do not
// count.
func servicesOn(name string) (map[netip.Addr]struct{}, error) {
	out := map[netip.Addr]struct{}{}
	interfaces, err := net.Interfaces()
	if err != nil || name == "" {
		return nil, err
	}
	for _, i := range interfaces {
		if !strings.EqualFold(i.Name, name) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, prefix := range prefixesOf(addrs) {
			if prefix.IsSingleIP() {
				out[prefix.Addr().Unmap()] = struct{}{}
			}
		}
	}
	return out, nil
}

func prefixesOf(addrs []net.Addr) (out []netip.Prefix) {
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, prefix)
		}
	}
	return out
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
func (Divert) Add(inet.Family) error {
	return fmt.Errorf("deliver marked packets on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Remove has nothing to remove here.
func (Divert) Remove(inet.Family) error { return nil }

// dynamicPorts is the size of IANA's range of dynamic ports, from 49152 to 65535: the default of Windows.
const dynamicPorts = 16384

// LocalPorts returns the number of ports that the system chooses from by default for sockets without a bound port.
func LocalPorts() (int, error) { return dynamicPorts, nil }

// PipePages is 0: pipes are not used to carry bytes here.
func PipePages() (int, error) { return 0, nil }

// ReservedPorts are none that are known here.
func ReservedPorts() ([]inet.PortRange, error) { return nil, nil }

// MayMark says that packets cannot be marked here.
func MayMark(uint32) error {
	return fmt.Errorf("mark packets on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Mark says so too.
func Mark(_ uintptr, mark uint32) error { return MayMark(mark) }
