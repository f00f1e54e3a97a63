package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

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

// Render writes the rules that a daemon of this configuration would write for its manifests; or, if only names a
// Service (NAMESPACE/NAME), those of them that it would not write without that Service. It touches no host.
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
	its := func(p portal.Portal) bool { return only == "" || p.Owner.Service().String() == only }
	if only != "" && !slices.ContainsFunc(want.portals, its) {
		return fmt.Errorf("--service %s: no such Service with an address in the manifests; want NAMESPACE/NAME", only)
	}
	nodePorts := slices.ContainsFunc(want.portals, func(p portal.Portal) bool {
		return p.Kind == service.NodePort && its(p)
	})
	if nodePorts && cfg.NodePorts.Primary && len(c.node.Addresses) == 0 && !cfg.NodeAddress.IsValid() {
		log.Warnf("NodePorts are not served: nodePortAddresses is primary, and the manifests have no Node %q "+
			"with an address",
			cfg.NodeName)
	}
	text, err := want.text(cfg, c, log)
	if err == nil && only != "" {
		var others string
		others, err = want.without(only, c.ports).text(cfg, c, log)
		text = onlyIn(text, others)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
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

// text are the rules, as the configured writer has them.
func (d *desired) text(cfg *config.Config, c cluster, log *logrus.Logger) (string, error) {
	detector := hostinfo.NewLocalDetector(cfg.DetectLocal, nil)
	detector.SetPodCIDRs(c.node.PodCIDRs)
	text, err := writers.Render(cfg, writers.Deps{
		Log: log, LocalDetector: detector.Rules(),
		NodePorts: writers.NodePortAddresses(cfg, c.node.Addresses), NodeAddresses: c.node.Addresses,
		ServiceCIDRs: c.serviceCIDRs,
	}, d.portals, d.open, d.checks)
	return string(text), err
}

// without is what remains without a Service: its portals, the proxy ports that they lead to, and its health-check port.
func (d *desired) without(name string, ports []*service.Port) *desired {
	rest := &desired{open: maps.Clone(d.open), checks: maps.Clone(d.checks)}
	for _, p := range d.portals {
		if p.Owner.Service().String() != name {
			rest.portals = append(rest.portals, p)
		} else if to, ok := p.Target.(portal.Redirect); ok {
			family := inet.FamilyOf(p.Frontend.Addr.Addr())
			delete(rest.open, portal.ProxyPort{Family: family, Protocol: p.Frontend.Protocol, Port: to.Port})
		}
	}
	for _, p := range ports {
		if p.Name.Service().String() == name {
			delete(rest.checks, p.HealthCheckPort)
		}
	}
	return rest
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
	source := manifests.New(cfg.Manifests, cache, log)
	if err := source.Read(ctx); err != nil {
		return c, fmt.Errorf("what cannot be read has no rules:\n%w", err)
	}
	if source.Empty() {
		return c, fmt.Errorf("--manifests %s: there is no object in it", strings.Join(cfg.Manifests, ","))
	}
	c.ports, _ = store.All()
	return c, nil
}
