package doctor

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/rtnl"
)

// readLinks lists interfaces with their addresses.
func readLinks(context.Context) ([]Link, error) {
	links, err := rtnl.Links()
	if err != nil {
		return nil, err
	}
	addrs, err := rtnl.Addresses(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	names, own := map[int]string{}, map[int][]netip.Addr{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			own[a.LinkIndex] = append(own[a.LinkIndex], ip.Unmap())
		}
	}
	var out []Link
	for _, l := range links {
		a := l.Attrs()
		out = append(out, Link{Name: a.Name, Kind: l.Type(), Master: names[a.MasterIndex], MTU: a.MTU,
			Up: a.RawFlags&unix.IFF_UP != 0, Addresses: own[a.Index]})
	}
	return out, nil
}

// mostRoutes bounds the addresses that are looked up: a lookup takes some 20 µs.
const mostRoutes = 10_000

// readRoutes asks for the routes to the Internet, by addresses that are reserved for documentation (RFC 5737, RFC
// 3849), and to Services.
func readRoutes(ctx context.Context, services []netip.Addr) (out Routes, err error) {
	out.Default = map[bool]Route{}
	links, err := rtnl.Links()
	if err != nil {
		return out, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, elsewhere := range []netip.Addr{
		netip.AddrFrom4([4]byte{203, 0, 113, 1}), netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}),
	} {
		out.Default[elsewhere.Is6()] = readRoute(elsewhere, names)
	}
	for _, to := range services[:min(len(services), mostRoutes)] {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		out.Services = append(out.Services, readRoute(to, names))
	}
	return out, nil
}

func readRoute(to netip.Addr, names map[int]string) Route {
	out := Route{To: to}
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		out.Failed = whyNoRoute(err)
		return out
	}
	out.Device, out.Local = names[routes[0].LinkIndex], routes[0].Type == unix.RTN_LOCAL
	if src, ok := netip.AddrFromSlice(routes[0].Src); ok {
		out.Source = src.Unmap()
	}
	return out
}

// whyNoRoute names what the kernel's answer to a lookup means.
func whyNoRoute(err error) string {
	switch {
	case errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	case errors.Is(err, syscall.EHOSTUNREACH):
		return "a route of type unreachable"
	case errors.Is(err, syscall.EACCES):
		return "a route of type prohibit"
	case errors.Is(err, syscall.EINVAL):
		return "a route of type blackhole"
	case err == nil:
		return "no answer of the kernel"
	}
	return err.Error()
}
