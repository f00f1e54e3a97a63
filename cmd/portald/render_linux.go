package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kube/manifests"
	"github.com/portald/portald/proxy/kube/translate"
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
		Writer: rules, Userspace: userspace.NewPlan(cfg.ProxyPorts), Kernel: kernel.New(kernel.Options{Node: cfg.NodeName}), Mode: cfg.Mode, Contested: func(c portal.Conflict) {
			log.Warnf("%s is held by the older Service %s; %s does not get it", c.Frontend, c.Holder.Label(), c.Loser.Label())
		},
		Aside: func(n dataplane.News) {
			log.WithError(n.Err).Warnf("%s would not be served as it asks to be", n.Name.Label())
		},
	})
	if err := plane.Resync(ctx, m.ports); err != nil {
		return err
	}
	if only != "" {
		if rules.keep(only); len(rules.portals) == 0 {
			return fmt.Errorf("--service %s: no such Service with an address in the manifests; want NAMESPACE/NAME", only)
		}
	}
	text, err := rendered(cfg, told{log: log, nodePorts: nodePortAddresses(cfg, m.node.Addresses), own: m.node.Addresses, inside: m.inside(cfg)}, rules)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, bytes.NewReader(text))
	return err
}

// rendered are the rules in the words of the writer that the configuration asks for.
func rendered(cfg *config.Config, t told, rules *sheet) ([]byte, error) {
	switch names := traceOf(cfg); cfg.Writer {
	case byNFTables:
		return nftables.Render(nftablesOptions(cfg, names, t), rules.portals, rules.open)
	case byIPVS:
		servers, err := ipvs.Render(ipvsOptions(cfg, names, t), rules.portals)
		beside, err2 := iptables.Render(rulesBesideIPVS(cfg, names, t), slices.DeleteFunc(slices.Clone(rules.portals), ofIPVS), rules.open)
		return append(servers, beside...), errors.Join(err, err2)
	default:
		return iptables.Render(iptablesOptions(cfg, names, t), rules.portals, rules.open)
	}
}

// ofIPVS tells whether a portal is IPVS's own, and not for the rules beside it.
func ofIPVS(p portal.Portal) bool {
	_, spreads := p.Target.(portal.Spread)
	return spreads
}

// sheet is a portal.Writer that only notes what it is to hold.
type sheet struct {
	portals []portal.Portal
	open    map[portal.ProxyPort]bool
}

func (s *sheet) Guard(open map[portal.ProxyPort]bool) { s.open = open }

func (s *sheet) Replace(_ context.Context, portals []portal.Portal) error {
	s.portals = portals
	return nil
}

func (s *sheet) Update(context.Context, []portal.Change) error { return errors.ErrUnsupported }
func (s *sheet) Cleanup(context.Context) error                 { return nil }

// keep leaves the portals of one Service, and the proxy ports that they lead to.
func (s *sheet) keep(name string) {
	led := map[portal.ProxyPort]bool{}
	s.portals = slices.DeleteFunc(s.portals, func(p portal.Portal) bool {
		ours := p.Owner.Service().String() == name
		if to, ok := p.Target.(portal.Redirect); ok && ours {
			led[portal.ProxyPort{Family: service.FamilyOf(p.Frontend.Addr.Addr()), Protocol: p.Frontend.Protocol, Port: to.Port}] = true
		}
		return !ours
	})
	maps.DeleteFunc(s.open, func(p portal.ProxyPort, _ bool) bool { return !led[p] })
}

// cluster is what manifests describe.
type cluster struct {
	ports []*service.Port
	node  translate.Node
}

func readManifests(ctx context.Context, cfg *config.Config, log *logrus.Logger) (m cluster, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	store := service.NewStore()
	cache := translate.NewCache(store, translateOptions(cfg, true), log)
	cache.WatchNode(func(n translate.Node, known bool) {
		if known {
			m.node = n
		}
	})
	source, ended := manifests.New(cfg.Manifests, cache, log), make(chan error, 1)
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
func (m cluster) inside(cfg *config.Config) portal.Inside {
	in := newInsiders(cfg.Inside, nil)
	in.setNode(m.node.PodCIDRs)
	return in.rules()
}
