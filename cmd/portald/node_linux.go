package main

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/kube/translate"
)

// nodeChanged takes in what the Node object says of this node. Nothing of it stops traffic: a Node that is gone was served
// a moment ago.
func (d *daemon) nodeChanged(n translate.Node, known bool) {
	if !known {
		return
	}
	d.health.SetEligible(n.Eligible)
	anew := d.host.inside.setNode(n.PodCIDRs)
	if anew {
		if err := d.writer.SetInside(d.host.inside.rules()); err != nil {
			d.log.WithError(err).Warn("Clients inside the cluster are told from others as before")
		}
	}
	if d.cfg.NodePorts.Primary {
		anew = d.writer.SetNodePortAddresses(nodePortAddresses(d.cfg, n.Addresses)) || anew
	}
	if anew && d.ready.Load() {
		d.applyAnew()
	}
}

// nodePortAddresses are the addresses that NodePorts are served on; none means all. Own are the node's, as far as its
// Node object has told.
func nodePortAddresses(cfg *config.Config, own []netip.Addr) []netip.Prefix {
	ask := cfg.NodePorts
	if ask.All {
		return nil
	}
	out := slices.Clone(ask.CIDRs)
	if ask.Primary {
		if cfg.NodeAddress.IsValid() {
			own = append([]netip.Addr{cfg.NodeAddress}, own...)
		}
		for _, a := range firstOfEach(own) {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	if len(out) == 0 { // served nowhere yet, or at the loopback address alone, which no rule leads from
		out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 32))
	}
	return out
}

// healthCheckAddresses are where load balancers may ask for Services: where NodePorts are served, as far as that is known
// at the start; none means all.
func (d *daemon) healthCheckAddresses() (out []netip.Addr) {
	if d.cfg.NodePorts.All || d.cfg.NodePorts.Primary {
		return nil
	}
	addrs, err := platform.LocalAddresses()
	if err != nil {
		d.log.WithError(err).Warn("Health checks of Services are answered at every address")
		return nil
	}
	for _, a := range addrs {
		if slices.ContainsFunc(d.cfg.NodePorts.CIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			out = append(out, a)
		}
	}
	return out
}
