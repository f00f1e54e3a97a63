package iptables

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// A service port whose portals spread has chains of its own. The rules of its portals jump to
//
//	SVC or SVL   from ClusterIPs: they jump to the endpoints of the cluster, or of this node
//	EXT          from other frontends: it jumps to these, by the class of the client
//	FW           from LoadBalancerIPs with source ranges: it jumps to EXT
//
// An endpoint is a rule, or a chain SEP if it may hairpin. All portals of a service port share one Pool, and all but
// those of ClusterIPs share a scope.
type spread struct {
	renderer
	owner service.PortName
	pool  *portal.Pool
	made  ruleset
}

// forwarding applies the Writer's options to a portal that spreads.
func (r renderer) forwarding(p portal.Portal) portal.Forwarding {
	return spreadOf(p).Forwarding(p.Kind, r.masquerade, len(r.pods) > 0)
}

// ownerChains are the chains of an owner with these portals, which are in order.
func (r renderer) ownerChains(portals []portal.Portal) ruleset {
	if len(portals) == 0 {
		return nil
	}
	s := &spread{r, portals[0].Owner, spreadOf(portals[0]).Pool, ruleset{}}
	for _, p := range portals {
		f := s.forwarding(p)
		if p.Kind == service.ClusterIP {
			s.internal(p.Frontend.Addr.Addr(), f)
			continue
		}
		s.external(f)
		if f.Restricted {
			s.firewall(p.Frontend.Addr.Addr(), f)
		}
	}
	return s.made
}

// spreadOf is the target of a portal that has one of this type.
func spreadOf(p portal.Portal) portal.Spread { return p.Target.(portal.Spread) }

// entry is the chain that the rule of a portal jumps to.
func (c chains) entry(p portal.Portal) string {
	switch {
	case spreadOf(p).Restricted(p.Kind):
		return c.owned(fromRanges, p.Owner, "")
	case p.Kind != service.ClusterIP:
		return c.owned(fromOthers, p.Owner, "")
	}
	return c.scoped(p.Owner, spreadOf(p).Scope)
}

// scoped is the chain of the endpoints of a scope.
func (c chains) scoped(owner service.PortName, scope service.Scope) string {
	if scope == service.NodeScope {
		return c.owned(toNode, owner, "")
	}
	return c.owned(toCluster, owner, "")
}

// internal is SVC or SVL, with a rule in front that marks the clients of a ClusterIP that are masqueraded. The rule
// matches the ClusterIP: flows that come from EXT are marked there if at all.
func (s *spread) internal(addr netip.Addr, f portal.Forwarding) {
	name := s.endpoints(f.Outside)
	dst := exactly("-d", addr)
	rule := ""
	switch others, one := outside(s.pods); {
	case f.Pods.Masquerade:
		rule = fmt.Sprintf("-A %s %s-j %s\n", name, dst, s.markMasq)
	case f.Outside.Masquerade && one:
		rule = fmt.Sprintf("-A %s %s%s%s-j %s\n", name, others.source, dst, others.device, s.markMasq)
	case f.Outside.Masquerade:
		rule = fmt.Sprintf("-A %s %s-j %s\n", name, dst, s.markOutside)
	}
	s.made[name] = chain{atService, rule + s.made[name].rules}
}

// external is EXT. Flows of clients without endpoints pass it, and are dropped in filter.
func (s *spread) external(f portal.Forwarding) {
	name := s.owned(fromOthers, s.owner, "")
	if _, ok := s.made[name]; ok {
		return
	}
	var b strings.Builder
	translate := func(match string, t portal.Translation) {
		if len(t.Endpoints) == 0 {
			return
		}
		if t.Masquerade {
			fmt.Fprintf(&b, "-A %s %s-j %s\n", name, match, s.markMasq)
		}
		fmt.Fprintf(&b, "-A %s %s-j %s\n", name, match, s.endpoints(t))
	}
	if !f.Uniform() {
		for _, c := range s.pods {
			translate(c.source+c.device, f.Pods)
		}
		translate(fromNode, f.Node)
	}
	translate("", f.Outside)
	s.made.add(name, atExternal, b.String())
}

// firewall is FW, for one more address.
func (s *spread) firewall(addr netip.Addr, f portal.Forwarding) {
	name, to := s.owned(fromRanges, s.owner, ""), s.owned(fromOthers, s.owner, "")
	var b strings.Builder
	if s.made[name].rules == "" {
		for _, p := range f.SourceRanges {
			fmt.Fprintf(&b, "-A %s %s-j %s\n", name, within("-s", p), to)
		}
	}
	if f.AdmitsNode {
		fmt.Fprintf(&b, "-A %s %s-j %s\n", name, exactly("-s", addr), to)
	}
	s.made.add(name, atFirewall, b.String())
}
