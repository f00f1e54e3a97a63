package main

import (
	"context"
	"net"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/splice"
)

// kept is how many descriptors are left to rules, watches, manifests and logs, whatever comes by the network.
const kept = 256

// budget divides what the process may open among those who may be asked by anybody: the data path has all but what is kept
// and what the servers' connections may take, and at least half. What the host shares with others is taken in part.
func (d *daemon) budget(limit uint64) splice.Budget {
	b := splice.Budget{Descriptors: max(int(limit)-kept-admin.MaxConnections, int(limit/2)), Sessions: d.cfg.UDPTotal}
	if b.Sessions == 0 {
		ports, err := platform.LocalPorts()
		if err != nil {
			d.log.WithError(err).Warn("UDP sessions may use up the host's ports; set udpMaxSessionsTotal")
		}
		b.Sessions = ports / 2
	}
	pages, err := platform.PipePages()
	if err != nil {
		d.log.WithError(err).Debug("Pipes keep to the kernel's default bound")
	}
	b.PipePages = pages / 4
	d.log.Debugf("Up to %d descriptors for connections, %d UDP sessions", b.Descriptors, b.Sessions)
	return b
}

// listenWithin listens with a descriptor of the account, for servers of which there are as many as Services ask for.
func listenWithin(account *splice.Account) func(ctx context.Context, network, address string) (net.Listener, error) {
	return func(ctx context.Context, network, address string) (net.Listener, error) {
		if err := account.Open(1); err != nil {
			return nil, err
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
		if err != nil {
			account.Close(1)
			return nil, err
		}
		return &accounted{l, account}, nil
	}
}

// accounted is a listener that gives its descriptor back.
type accounted struct {
	net.Listener
	account *splice.Account
}

func (a *accounted) Close() error {
	err := a.Listener.Close()
	if err == nil { // the first time
		a.account.Close(1)
	}
	return err
}
