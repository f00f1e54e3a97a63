// Package writers makes the portal.Writer that a configuration asks for, with the names that a portald owns on the
// host. It renders rules as text, and removes rules that earlier runs left. It does not know the daemon.
package writers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/netsh"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/portal/writer"
)

// The writers, by the values of config.Config.Writer.
const (
	IPTables = "iptables"
	NFTables = "nftables"
	IPVS     = "ipvs"
	Netsh    = "netsh"
)

// Deps has facts about the node, a log and metrics for a writer. Each func may be nil.
type Deps struct {
	NodePorts     []netip.Prefix // addresses that NodePorts are served on; empty means all
	NodeAddresses []netip.Addr   // the host's addresses
	LocalDetector portal.LocalDetector
	ServiceCIDRs  []netip.Prefix // ranges of ClusterIPs, beside the configured ones
	Log           logrus.FieldLogger
	Listeners     netsh.Listeners // for portals that are listeners at frontends' own addresses

	Failed func(family inet.Family, partial bool) // the kernel refused a transaction, or a part of it
	// CleanupFailed is nftables.Options.CleanupFailed.
	CleanupFailed func(family inet.Family)
	RuleCount     func(family inet.Family, table string, rules int) // rules of ours in a table of iptables
	Wrote         func(family inet.Family, table string, rules int) // rules of the last transaction

	// Refused is writer.Options.Refused.
	Refused func(portal.Refused)

	// FailedPortal and Carried are netsh.Options.Failed and Carried.
	FailedPortal func(portal.Portal, error)
	Carried      func() map[netip.Addr]struct{}
}

// New returns the writer of a configuration. It may wait for the lock of iptables, until ctx ends.
func New(ctx context.Context, cfg *config.Config, d Deps) (portal.Writer, error) {
	switch names := NamesOf(cfg); cfg.Writer {
	case NFTables:
		w, err := nftables.New(nftablesOptions(cfg, names, d))
		if err != nil {
			return nil, fmt.Errorf("%w: portald needs the capability NET_ADMIN (root has it), and a kernel with nftables", err)
		}
		return w, nil
	case IPVS:
		return newIPVS(ctx, cfg, names, d)
	case Netsh:
		return netsh.New(netshOptions(cfg, d))
	}
	w, err := iptables.New(ctx, iptablesOptions(cfg, NamesOf(cfg), d))
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: install the package iptables (of Red Hat: iptables-nft), or set writer: nftables, "+
			"in a kernel mode mode: nftables, which needs no command", err)
	case Busy(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: portald needs the package iptables and the capability NET_ADMIN (root has it)", err)
	}
	return w, nil
}

// Busy tells whether an error of New says that another program held the lock of iptables, and nothing of the host.
func Busy(err error) bool { return errors.Is(err, writer.ErrBusy) }

// Prepare writes the kernel's settings that the writer needs and a daemon with few rights may not write, and returns
// which it changed. IPVS alone has any.
func Prepare(cfg *config.Config) (changed []string, err error) {
	if cfg.Writer != IPVS {
		return nil, nil
	}
	return ipvs.Prepare(ipvs.Options{StrictARP: cfg.IPVS.StrictARP})
}

// newIPVS returns an IPVS writer with an iptables writer for what IPVS cannot hold.
func newIPVS(ctx context.Context, cfg *config.Config, names Names, d Deps) (portal.Writer, error) {
	o := ipvsOptions(cfg, names, d)
	rules, err := iptables.New(ctx, rulesBesideIPVS(cfg, names, d))
	if err != nil {
		return nil, err
	}
	o.Rules = rules
	return ipvs.New(o)
}

// rulesBesideIPVS are the options of that iptables writer.
func rulesBesideIPVS(cfg *config.Config, names Names, d Deps) iptables.Options {
	out := iptablesOptions(cfg, names, d)
	out.Extra = ipvs.Chains(ipvsOptions(cfg, names, d))
	return out
}

func iptablesOptions(cfg *config.Config, names Names, d Deps) iptables.Options {
	return iptables.Options{
		Options: rulesOptions(cfg, d), Prefix: names.Chains, ExtraNames: ipvs.ChainNames, Variant: cfg.IPTablesVariant,
		Liberal: cfg.Conntrack.TCPBeLiberal, RuleCount: d.RuleCount, Wrote: d.Wrote,
	}
}

// rulesOptions returns the options of every writer of rules.
func rulesOptions(cfg *config.Config, d Deps) writer.Options {
	return writer.Options{
		Settings:   writer.Settings{LocalDetector: d.LocalDetector, NodePortAddresses: d.NodePorts},
		ProxyPorts: cfg.ProxyPorts, ProxyAddresses: cfg.NodeIPs,
		Masquerade: cfg.Masquerade, Dials: portal.DefaultDials, Log: d.Log.Warnf, Failed: d.Failed,
		Refused: d.Refused,
	}
}

// TakesServiceCIDRs tells whether the ranges are taken from the cluster's ServiceCIDRs: no setting says which they are,
// and no other proxy has Services in them.
func TakesServiceCIDRs(cfg *config.Config) bool {
	return cfg.Writer == NFTables && len(cfg.ServiceCIDRs) == 0 && cfg.ServiceProxyName == ""
}

func nftablesOptions(cfg *config.Config, names Names, d Deps) nftables.Options {
	return nftables.Options{
		Options: rulesOptions(cfg, d), Table: names.Table, ServiceCIDRs: slices.Concat(cfg.ServiceCIDRs, d.ServiceCIDRs),
		CleanupFailed: d.CleanupFailed,
	}
}

func ipvsOptions(cfg *config.Config, names Names, d Deps) ipvs.Options {
	c := cfg.IPVS
	return ipvs.Options{
		Prefix: names.Chains, Scheduler: c.Scheduler, ExcludeCIDRs: c.ExcludeCIDRs, StrictARP: c.StrictARP,
		TCPTimeout: c.TCPTimeout, TCPFinTimeout: c.TCPFinTimeout, UDPTimeout: c.UDPTimeout,
		NodePortAddresses: d.NodePorts, NodeAddresses: d.NodeAddresses, LocalDetector: d.LocalDetector,
		Masquerade: cfg.Masquerade, Dials: portal.DefaultDials, Log: d.Log.Warnf,
	}
}
