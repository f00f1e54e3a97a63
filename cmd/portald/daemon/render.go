package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kube/manifests"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/userspace"
)

// Render writes the rules that a daemon of this configuration would write for its manifests, or only the rules of one
// Service (NAMESPACE/NAME) unless that is empty. It touches no host.
func Render(ctx context.Context, cfg *config.Config, log *logrus.Logger, only string, out io.Writer) error {
	if len(cfg.Manifests) == 0 {
		return errors.New("--manifests is missing: name a file or folder of manifests, or - for standard input")
	}
	c, err := readManifests(ctx, cfg, log)
	if err != nil {
		return err
	}
	want := &desired{}
	if err := newPlan(cfg, want, c.node.Addresses, log).Resync(ctx, c.ports); err != nil {
		return err
	}
	if only != "" {
		if want.keep(only); len(want.portals) == 0 {
			return fmt.Errorf("--service %s: no such Service with an address in the manifests; want NAMESPACE/NAME", only)
		}
	}
	nodePorts := slices.ContainsFunc(want.portals, func(p portal.Portal) bool { return p.Kind == service.NodePort })
	if nodePorts && cfg.NodePorts.Primary && len(c.node.Addresses) == 0 && !cfg.NodeAddress.IsValid() {
		log.Warnf("NodePorts are not served: nodePortAddresses is primary, and the manifests have no Node %q "+
			"with an address",
			cfg.NodeName)
	}
	detector := hostinfo.NewLocalDetector(cfg.DetectLocal, nil)
	detector.SetPodCIDRs(c.node.PodCIDRs)
	text, err := writers.Render(cfg, writers.Deps{
		Log: log, LocalDetector: detector.Rules(),
		NodePorts: writers.NodePortAddresses(cfg, c.node.Addresses), NodeAddresses: c.node.Addresses,
		ServiceCIDRs: c.serviceCIDRs,
	}, want.portals, want.open, want.checks)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// newPlan returns a dataplane that listens nowhere.
func newPlan(
	cfg *config.Config, w portal.Writer, node []netip.Addr, log logrus.FieldLogger,
) *dataplane.Dataplane {
	options := dataplane.Options{
		Writer: w, Userspace: userspace.NewPlan(cfg.ProxyPorts, cfg.Settings.Policy), Mode: cfg.Mode,
		Kernel: kernel.New(kernel.Options{
			Node: cfg.NodeName, Offers: writers.Offers(cfg),
			Algorithm:     func() service.Algorithm { return cfg.Settings.Policy.Algorithm },
			NodeAddresses: func() []netip.Addr { return node },
		}),
		Contested: func(c portal.Conflict) {
			log.Warnf("%s belongs to the older Service %s: %s does not get it", c.Frontend, c.Holder.Label(), c.Loser.Label())
		},
		Refused: func(n dataplane.Refusal) {
			log.WithError(n.Err).Warnf("%s cannot be served as configured", n.Name.Label())
		},
	}
	if writers.Direct(cfg) {
		options.Userspace, options.Kernel = userspace.NewDirectPlan(cfg.Settings.Policy), nil
	}
	return dataplane.New(options)
}

// desired is a portal.Writer that keeps what it is to write.
type desired struct {
	portal.Unsupported
	portals []portal.Portal
	open    map[portal.ProxyPort]bool
	checks  map[uint16]bool
}

func (d *desired) Guard(open map[portal.ProxyPort]bool) { d.open = open }

func (d *desired) Features() portal.Features { return portal.Features{Opens: true} }

func (d *desired) Open(ports map[uint16]bool) { d.checks = ports }

func (d *desired) Replace(_ context.Context, portals []portal.Portal) error {
	d.portals = portals
	return nil
}

func (d *desired) Update(context.Context, []portal.Change) error { return errors.ErrUnsupported }

// keep removes all but the portals of one Service, and the proxy ports that they lead to.
func (d *desired) keep(name string) {
	used := map[portal.ProxyPort]bool{}
	d.portals = slices.DeleteFunc(d.portals, func(p portal.Portal) bool {
		ours := p.Owner.Service().String() == name
		if to, ok := p.Target.(portal.Redirect); ok && ours {
			family := inet.FamilyOf(p.Frontend.Addr.Addr())
			used[portal.ProxyPort{Family: family, Protocol: p.Frontend.Protocol, Port: to.Port}] = true
		}
		return !ours
	})
	maps.DeleteFunc(d.open, func(p portal.ProxyPort, _ bool) bool { return !used[p] })
}

// cluster has the contents of manifests: service ports, the node if they have it, and ranges of ClusterIPs.
type cluster struct {
	ports        []*service.Port
	node         translate.Node
	serviceCIDRs []netip.Prefix // if the writer takes the cluster's
}

// readManifests reads all manifests once, all that is in them or nothing.
func readManifests(ctx context.Context, cfg *config.Config, log *logrus.Logger) (c cluster, err error) {
	store := service.NewStore()
	cache := translate.NewCache(store, translateOptions(cfg, true, writers.Offers(cfg)), log)
	cache.WatchNode(func(n translate.Node, known bool) {
		if known {
			c.node = n
		}
	})
	if cache.Options().ServiceCIDRs {
		cache.WatchServiceCIDRs(func(all []netip.Prefix) { c.serviceCIDRs = all })
	}
	if err := manifests.New(cfg.Manifests, cache, log).Read(ctx); err != nil {
		return c, fmt.Errorf("what cannot be read has no rules:\n%w", err)
	}
	c.ports, _ = store.All()
	return c, nil
}
