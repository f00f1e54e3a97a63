package daemon

import (
	"context"
	"net"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/health"
	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/succession"
)

// reserved is the number of descriptors left to rules, watches, manifests and logs, whatever arrives from the network.
const reserved = 256

// serverConnections is how many connections the health server, the metrics server, the admin socket and the
// health-check ports of Services may have.
const serverConnections = 3*httpserver.MaxConnections + health.MaxCheckConnections

// budgetOf divides what the process may open: the data path has all descriptors but the reserved ones and those for the
// admin servers' connections, and at least half. Of ports and pipes, which others on the host use too, it takes a part.
func budgetOf(cfg *config.Config, limit uint64, k *succession.Keeper, log logrus.FieldLogger) quota.Budget {
	b := quota.Budget{
		Descriptors: max(int(limit)-reserved-serverConnections, int(limit/2)), Sessions: cfg.UDPTotal,
		Kept: k.Places(),
	}
	if b.Sessions == 0 {
		ports, err := platform.LocalPorts()
		if err != nil {
			log.WithError(err).Warn("UDP sessions may use up the host's ports; set udpMaxSessionsTotal")
		}
		b.Sessions = ports / 2
	}
	pages, err := platform.PipePages()
	if err != nil {
		log.WithError(err).Debug("Pipes keep the kernel's default limit")
	}
	b.PipePages = pages / 4
	log.Debugf("Up to %d descriptors for connections, %d UDP sessions", b.Descriptors, b.Sessions)
	return b
}

type listenFunc = func(ctx context.Context, network, address string) (net.Listener, error)

// listenWithin returns a listen function that takes each descriptor from the account, for servers whose number grows
// with the number of Services.
func listenWithin(account *quota.Account, listen listenFunc) listenFunc {
	return func(ctx context.Context, network, address string) (net.Listener, error) {
		if err := account.Open(1); err != nil {
			return nil, err
		}
		l, err := listen(ctx, network, address)
		if err != nil {
			account.Close(1)
			return nil, err
		}
		return &accountedListener{l, account}, nil
	}
}

// accountedListener returns its descriptor to the account when it is closed.
type accountedListener struct {
	net.Listener
	account *quota.Account
}

func (a *accountedListener) Close() error {
	err := a.Listener.Close()
	if err == nil { // the first time
		a.account.Close(1)
	}
	return err
}

// settledAfter is when a daemon that is ready has its connections from a predecessor too, and no garbage of its start
// to come.
const settledAfter = 10 * time.Second

// trimMemory gives back what the first lists of objects and the first rules took, once they are in place: it is as
// much as what stays, and the garbage collector would keep it.
func trimMemory(ready <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
		}
		if backoff.Sleep(ctx, settledAfter) == nil {
			debug.FreeOSMemory()
		}
		return nil
	}
}
