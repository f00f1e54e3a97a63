package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/service"
)

// host is what is asked of the operating system while connections are carried.
type host struct {
	flows     *platform.FlowTable
	addresses *platform.LocalSet
	names     *platform.Interfaces
	paths     *platform.Paths
	inside    *insiders
}

func newHost(inside config.Inside) (h *host, err error) {
	h = &host{flows: platform.NewFlowTable()}
	if h.addresses, err = platform.NewLocalSet(); err != nil {
		return nil, err
	}
	if h.names, err = platform.NewInterfaces(); err != nil {
		return nil, err
	}
	if h.paths, err = platform.NewPaths(h.names); err != nil {
		return nil, err
	}
	h.inside = newInsiders(inside, h)
	return h, nil
}

// follow is what keeps up with the host, each part until ctx ends.
func (h *host) follow(log logrus.FieldLogger) []func(context.Context) error {
	addresses := func(err error) { log.WithError(err).Warn("New addresses of this host are not noticed for now") }
	asked := func(err error) { log.WithError(err).Warn("Interfaces and routes are asked for, each time, for now") }
	return []func(context.Context) error{
		func(ctx context.Context) error { return h.addresses.Run(ctx, addresses) },
		func(ctx context.Context) error { return h.names.Run(ctx, asked) },
		func(ctx context.Context) error { return h.paths.Run(ctx, asked) },
	}
}

func (h *host) close() {
	h.flows.Close()
	h.names.Close()
	h.paths.Close()
}

// forFamilies does something for IPv4 and IPv6 alike.
func forFamilies(do func(service.IPFamily) error) error {
	return errors.Join(do(service.IPv4), do(service.IPv6))
}

// firstOfEach is the first address of each family.
func firstOfEach(addrs []netip.Addr) (out []netip.Addr) {
	var v4, v6 bool
	for _, a := range addrs {
		if a.Is4() && !v4 || a.Is6() && !v6 {
			out = append(out, a)
		}
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
	}
	return out
}
