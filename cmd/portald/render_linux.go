package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kube"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/userspace"
)

// render writes the rules that a daemon of this configuration would write for its manifests; only those of one Service, if
// that is named.
func render(ctx context.Context, cfg *config.Config, log *logrus.Logger, only string, out io.Writer) error {
	if len(cfg.Manifests) == 0 {
		return errors.New("--manifests is missing: name a file or folder of manifests, or - for standard input")
	}
	m, err := readManifests(ctx, cfg, log)
	if err != nil {
		return err
	}
	rules := &sheet{}
	plane := dataplane.New(dataplane.Options{
		Writer: rules, Userspace: userspace.NewPlan(cfg.ProxyPorts), Kernel: kernel.New(), Mode: cfg.Mode, Contested: func(c portal.Conflict) {
			log.Warnf("%s is held by the older Service %s; %s does not get it", c.Frontend, c.Holder.Label(), c.Loser.Label())
		},
	})
	if err := plane.Resync(ctx, m.ports); err != nil {
		return err
	}
	if only != "" {
		if rules.portals = rules.of(only); len(rules.portals) == 0 {
			return fmt.Errorf("--service %s: no such Service with an address in the manifests; want NAMESPACE/NAME", only)
		}
	}
	text, err := rendered(cfg, told{log: log, nodePorts: nodePortAddresses(cfg, m.node.Addresses), own: m.node.Addresses, inside: m.inside(cfg)}, rules.portals)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, bytes.NewReader(text))
	return err
}

// rendered are the rules in the words of the writer that the configuration asks for.
func rendered(cfg *config.Config, t told, portals []portal.Portal) ([]byte, error) {
	switch names := traceOf(cfg); cfg.Writer {
	case byNFTables:
		return nftables.Render(nftablesOptions(cfg, names, t), portals)
	case byIPVS:
		servers, err := ipvs.Render(ipvsOptions(cfg, names, t), portals)
		rules, err2 := iptables.Render(rulesBesideIPVS(cfg, names, t), slices.DeleteFunc(slices.Clone(portals), ofIPVS))
		return append(servers, rules...), errors.Join(err, err2)
	default:
		return iptables.Render(iptablesOptions(cfg, names, t), portals)
	}
}

// ofIPVS tells whether a portal is IPVS's own, and not for the rules beside it.
func ofIPVS(p portal.Portal) bool {
	_, spreads := p.Target.(portal.Spread)
	return spreads
}

// sheet is a portal.Writer that only notes what it is to hold.
type sheet struct{ portals []portal.Portal }

func (s *sheet) Replace(_ context.Context, portals []portal.Portal) error {
	s.portals = portals
	return nil
}

func (s *sheet) Update(context.Context, []portal.Change) error { return errors.ErrUnsupported }
func (s *sheet) Cleanup(context.Context) error                 { return nil }

// of are the portals of one Service.
func (s *sheet) of(name string) []portal.Portal {
	return slices.DeleteFunc(s.portals, func(p portal.Portal) bool { return p.Owner.Service().String() != name })
}

// manifests are what was read.
type manifests struct {
	ports []*service.Port
	node  kube.Node
}

func readManifests(ctx context.Context, cfg *config.Config, log *logrus.Logger) (m manifests, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	store := service.NewStore()
	cache := kube.NewCache(store, translateOptions(cfg, true), log)
	cache.WatchNode(func(n kube.Node, known bool) {
		if known {
			m.node = n
		}
	})
	source, ended := kube.NewManifests(cfg.Manifests, cache, log), make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	select {
	case err = <-ended:
	case <-source.Synced():
		cancel()
		err = <-ended
	}
	if err != nil {
		return m, err
	}
	m.ports, _ = store.All()
	return m, nil
}

// inside is who is inside the cluster.
func (m manifests) inside(cfg *config.Config) portal.Inside {
	in := newInsiders(cfg.Inside, nil)
	in.setNode(m.node.PodCIDRs)
	return in.rules()
}
