// Package hostinfo looks up this host for the data path and the writer of rules: addresses, interfaces, routes, who is
// inside the cluster, where NodePorts are, and how much a process may open.
package hostinfo

import (
	"context"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
)

// Host follows the addresses, interfaces and routes of this host while it runs, for lookups of the data path.
type Host struct {
	*parts.Stage
	Addresses  *platform.LocalSet
	interfaces *platform.Interfaces
	paths      *platform.Paths
	Conntrack  *platform.ConntrackTable
	Detector   *LocalDetector
}

// NodeAddresses returns the addresses of this host that are its own and no Service's; none where that cannot be told:
// without rules, Services have theirs where the host has its own.
func (h *Host) NodeAddresses(cfg *config.Config) func() []netip.Addr {
	if writers.Direct(cfg) {
		return nil
	}
	return h.Addresses.Node
}

// New reads the state of this host, and follows no change before it is started.
func New(cfg *config.Config, log logrus.FieldLogger) (h *Host, err error) {
	h = &Host{Conntrack: platform.NewConntrackTable()}
	if h.Addresses, err = platform.NewLocalSet(writers.ServiceInterface(cfg)); err != nil {
		return nil, err
	}
	if h.interfaces, err = platform.NewInterfaces(); err != nil {
		return nil, err
	}
	if h.paths, err = platform.NewPaths(h.interfaces); err != nil {
		return nil, err
	}
	h.Detector = NewLocalDetector(cfg.DetectLocal, h)
	h.Stage = parts.NewStage(h.follow(log)...)
	return h, nil
}

// follow returns the functions that follow these changes, each until ctx ends.
func (h *Host) follow(log logrus.FieldLogger) []func(context.Context) error {
	addresses := func(err error) {
		log.WithError(err).Warn("Cannot watch this host's addresses: changes are not seen for now")
	}
	links := func(err error) {
		log.WithError(err).Warn("Cannot watch interfaces and routes: looking them up for each connection")
	}
	return []func(context.Context) error{
		func(ctx context.Context) error { return h.Addresses.Run(ctx, addresses) },
		func(ctx context.Context) error { return h.interfaces.Run(ctx, links) },
		func(ctx context.Context) error { return h.paths.Run(ctx, links) },
	}
}

// Stop also closes the sockets of lookups: nothing is carried any more.
func (h *Host) Stop() error {
	err := h.Stage.Stop()
	h.Conntrack.Close()
	h.interfaces.Close()
	h.paths.Close()
	return err
}
