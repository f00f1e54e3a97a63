package daemon

import (
	"context"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
)

// host is the state of the operating system that the data path looks up. While it runs it follows changes of addresses,
// interfaces and routes.
type host struct {
	*stage
	addresses  *platform.LocalSet
	interfaces *platform.Interfaces
	paths      *platform.Paths
	conntrack  *platform.ConntrackTable
	detector   *localDetector
}

// nodeAddresses returns the addresses of this host that are its own and no Service's; none where that cannot be told:
// without rules, Services have theirs where the host has its own.
func (h *host) nodeAddresses(cfg *config.Config) func() []netip.Addr {
	if writers.Direct(cfg) {
		return nil
	}
	return h.addresses.Node
}

func newHost(cfg *config.Config, log logrus.FieldLogger) (h *host, err error) {
	h = &host{conntrack: platform.NewConntrackTable()}
	if h.addresses, err = platform.NewLocalSet(writers.ServiceInterface(cfg)); err != nil {
		return nil, err
	}
	if h.interfaces, err = platform.NewInterfaces(); err != nil {
		return nil, err
	}
	if h.paths, err = platform.NewPaths(h.interfaces); err != nil {
		return nil, err
	}
	h.detector = newLocalDetector(cfg.DetectLocal, h)
	h.stage = newStage(h.follow(log)...)
	return h, nil
}

// follow returns the functions that follow these changes, each until ctx ends.
func (h *host) follow(log logrus.FieldLogger) []func(context.Context) error {
	addresses := func(err error) {
		log.WithError(err).Warn("Cannot watch this host's addresses: changes are not seen for now")
	}
	links := func(err error) {
		log.WithError(err).Warn("Cannot watch interfaces and routes: looking them up for each connection")
	}
	return []func(context.Context) error{
		func(ctx context.Context) error { return h.addresses.Run(ctx, addresses) },
		func(ctx context.Context) error { return h.interfaces.Run(ctx, links) },
		func(ctx context.Context) error { return h.paths.Run(ctx, links) },
	}
}

// stop also closes the sockets of lookups: nothing is carried any more.
func (h *host) stop() error {
	err := h.stage.stop()
	h.conntrack.Close()
	h.interfaces.Close()
	h.paths.Close()
	return err
}
