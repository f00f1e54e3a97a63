package main

import (
	"fmt"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/proxy/service"
)

// The facilities, as settings call them.
const (
	byIPTables = "iptables"
	byNFTables = "nftables"
	byIPVS     = "ipvs"
)

// told is what a writer is told beside the configuration, and whom it tells.
type told struct {
	nodePorts   []netip.Prefix
	own         []netip.Addr // the host's addresses
	inside      portal.Inside
	log         logrus.FieldLogger
	failed      func(family service.IPFamily, partial bool)
	held, wrote func(family service.IPFamily, table string, rules int)
}

// newWriter makes the writer that a configuration asks for, with these names on the host.
func newWriter(cfg *config.Config, names trace, t told) (portal.HostWriter, error) {
	switch cfg.Writer {
	case byNFTables:
		w, err := nftables.New(nftablesOptions(cfg, names, t))
		if err != nil {
			return nil, fmt.Errorf("%w: portald needs the capability NET_ADMIN (root has it), and a kernel with nftables", err)
		}
		return w, nil
	case byIPVS:
		return newIPVS(cfg, names, t)
	}
	w, err := iptables.New(iptablesOptions(cfg, names, t))
	if err != nil {
		return nil, fmt.Errorf("%w: portald needs the package iptables and the capability NET_ADMIN (root has it)", err)
	}
	return w, nil
}

// newIPVS has a writer of iptables for what is not IPVS's.
func newIPVS(cfg *config.Config, names trace, t told) (portal.HostWriter, error) {
	o := ipvsOptions(cfg, names, t)
	rules, err := iptables.New(rulesBesideIPVS(cfg, names, t))
	if err != nil {
		return nil, err
	}
	o.Rules = rules
	return ipvs.New(o)
}

// rulesBesideIPVS are the options of that writer.
func rulesBesideIPVS(cfg *config.Config, names trace, t told) iptables.Options {
	out, o := iptablesOptions(cfg, names, t), ipvsOptions(cfg, names, t)
	for _, c := range append(ipvs.Chains(o, service.IPv4), ipvs.Chains(o, service.IPv6)...) {
		out.Extra = append(out.Extra, iptables.Extra(c))
	}
	return out
}

func iptablesOptions(cfg *config.Config, names trace, t told) iptables.Options {
	return iptables.Options{
		Prefix: names.chains, Variant: cfg.IPTablesVariant, ProxyPorts: [2]uint16{cfg.ProxyPorts.First, cfg.ProxyPorts.Last},
		ProxyAddresses: cfg.NodeIPs, NodePortAddresses: t.nodePorts, NodeIPs: t.own, Inside: t.inside, Masquerade: cfg.Masquerade, Dials: portal.DefaultDials,
		Liberal: cfg.Conntrack.TCPBeLiberal, Log: t.log.Warnf, Failed: t.failed, Held: t.held, Wrote: t.wrote,
	}
}

func nftablesOptions(cfg *config.Config, names trace, t told) nftables.Options {
	return nftables.Options{
		Table: names.table, ProxyPorts: [2]uint16{cfg.ProxyPorts.First, cfg.ProxyPorts.Last}, ProxyAddresses: cfg.NodeIPs,
		NodePortAddresses: t.nodePorts, Inside: t.inside, Masquerade: cfg.Masquerade, Dials: portal.DefaultDials, ServiceCIDRs: cfg.ServiceCIDRs,
		Log: t.log.Warnf, Failed: t.failed,
	}
}

func ipvsOptions(cfg *config.Config, names trace, t told) ipvs.Options {
	c := cfg.IPVS
	return ipvs.Options{
		Prefix: names.chains, Scheduler: c.Scheduler, ExcludeCIDRs: c.ExcludeCIDRs, StrictARP: c.StrictARP,
		TCPTimeout: c.TCPTimeout, TCPFinTimeout: c.TCPFinTimeout, UDPTimeout: c.UDPTimeout, NodePortAddresses: t.nodePorts, NodeAddresses: t.own,
		Inside: t.inside, Masquerade: cfg.Masquerade, Dials: portal.DefaultDials, Log: t.log.Warnf,
	}
}
