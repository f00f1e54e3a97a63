package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform/hns"
)

// The times of looking for the network of pods. A CNI plug-in may make it after the daemon has started.
const (
	podNetworkLimit  = 5 * time.Second  // of HNS, to answer
	podNetworkPeriod = 30 * time.Second // between two looks, until there is one
)

// podNetwork looks whether the pods of a Windows node are in an overlay network. Its node reaches its own pods only, so
// connections to endpoints on other nodes would time out.
type podNetwork struct {
	read  func(context.Context) ([]hns.Network, error)
	serve bool // nevertheless
	log   logrus.FieldLogger

	over   bool   // there is nothing more to find
	unread string // the error that was logged
	note   string // for an event of the node
}

// newPodNetwork returns nil on a node that needs no look.
func newPodNetwork(cfg *config.Config, log logrus.FieldLogger) *podNetwork {
	if !writers.Direct(cfg) {
		return nil
	}
	return &podNetwork{read: hns.Networks, serve: cfg.ServeOverlay, log: log}
}

// look returns an error if there is an overlay network and the configuration does not allow it. It is the last look
// once there is a network that may be the one of the pods.
func (p *podNetwork) look(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, end := context.WithTimeout(ctx, podNetworkLimit)
	defer end()
	all, err := p.read(ctx)
	if err != nil {
		p.over = errors.Is(err, hns.ErrMissing)
		p.notRead(err)
		return nil
	}
	for _, n := range all {
		p.over = p.over || n.ForPods()
		if n.IsOverlay() {
			return p.found(n)
		}
	}
	return nil
}

// notRead logs an error once.
func (p *podNetwork) notRead(err error) {
	if err.Error() == p.unread {
		return
	}
	p.unread = err.Error()
	const message = "Cannot tell whether pods are in an overlay network, where endpoints on other nodes time out"
	if p.over {
		p.log.WithError(err).Info(message)
		return
	}
	p.log.WithError(err).Warn(message)
}

func (p *podNetwork) found(n hns.Network) error {
	why := fmt.Sprintf("HNS network %s: in an overlay network, Windows reaches pods only from their own node, so "+
		"connections to endpoints on other nodes time out", n)
	if !p.serve {
		return fmt.Errorf("%s; run kube-proxy on this node, or use an l2bridge network; if no pods are in this network, "+
			"set overlayNetwork: serve", why)
	}
	p.note = why
	p.log.Warn("Serving a node with an overlay network, as overlayNetwork says: " + why)
	return nil
}

// part returns the part of the daemon that looks until the network is known. warn is for an event of the node.
func (p *podNetwork) part(warn func(reason, action, note string)) parts.Part {
	return parts.NewStage(func(ctx context.Context) error {
		if p == nil {
			return nil
		}
		for !p.over {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(podNetworkPeriod):
			}
			if err := p.look(ctx); err != nil {
				return err
			}
		}
		if p.note != "" {
			warn("OverlayNetwork", "StartKubeProxy", p.note)
		}
		return nil
	})
}
