package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// A service port whose portals spread has chains of its own. The rules of its portals lead to
//
//	SVC or SVL   from a ClusterIP: to the endpoints of the cluster, or of this node
//	EXT          from any other frontend: to these, by who the client is
//	FW           from a LoadBalancerIP that not everyone may use: to EXT
//
// and these to an endpoint, or to its chain SEP where it needs one. All its portals share one Pool, and all but those of
// ClusterIPs a scope.
type spread struct {
	renderer
	owner service.PortName
	pool  *portal.Pool
	made  map[string]string // chain → rules
}

// ownerChains are the chains of an owner, given its portals in order.
func (r renderer) ownerChains(portals []portal.Portal) map[string]string {
	if len(portals) == 0 {
		return nil
	}
	s := &spread{r, portals[0].Owner, spreadOf(portals[0]).Pool, map[string]string{}}
	for _, p := range portals {
		if p.Kind == service.ClusterIP {
			s.internal(p.Frontend.Addr.Addr(), spreadOf(p).Scope)
			continue
		}
		s.external(spreadOf(p).Scope)
		if restricted(p) {
			s.firewall(p.Frontend.Addr.Addr())
		}
	}
	return s.made
}

// spreadOf is the target of a portal that has one of this type.
func spreadOf(p portal.Portal) portal.Spread { return p.Target.(portal.Spread) }

// restricted tells whether not everyone may use a portal that spreads.
func restricted(p portal.Portal) bool {
	return p.Kind == service.LoadBalancerIP && spreadOf(p).Pool.Restricted
}

// entry is the chain that the rule of a portal leads to.
func (c chains) entry(p portal.Portal) string {
	switch {
	case restricted(p):
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

// internal is SVC or SVL, with a rule in front that marks clients of a ClusterIP who have to be seen with this node's
// address. It names the ClusterIP: those who come by way of EXT are marked there or not at all.
func (s *spread) internal(addr netip.Addr, scope service.Scope) {
	name := s.endpoints(scope)
	dst := exactly("-d", addr)
	rule := ""
	switch stranger, one := strangers(s.pods); {
	case s.masquerade.All:
		rule = fmt.Sprintf("-A %s %s-j %s\n", name, dst, s.markMasq)
	case one:
		rule = fmt.Sprintf("-A %s %s%s%s-j %s\n", name, stranger.source, dst, stranger.device, s.markMasq)
	case len(s.pods) > 0:
		rule = fmt.Sprintf("-A %s %s-j %s\n", name, dst, s.markOutside)
	}
	s.made[name] = rule + s.made[name]
}

// external is EXT. Whom its rules for NodeScope lead nowhere is dropped in filter.
func (s *spread) external(scope service.Scope) {
	name := s.owned(fromOthers, s.owner, "")
	if _, ok := s.made[name]; ok {
		return
	}
	var b strings.Builder
	rule := func(match, to string) { fmt.Fprintf(&b, "-A %s %s-j %s\n", name, match, to) }
	cluster := s.endpoints(service.ClusterScope)
	if scope == service.ClusterScope {
		rule("", s.markMasq)
		rule("", cluster)
	} else {
		for _, c := range s.pods {
			rule(c.source+c.device, cluster)
		}
		rule(fromHere, s.markMasq)
		rule(fromHere, cluster)
		if len(s.pool.Node) > 0 {
			rule("", s.endpoints(service.NodeScope))
		}
	}
	s.made[name] = b.String()
}

// firewall is FW, with one more address. Of an address of its own this node is the client under that address, and has
// the right that its other addresses have.
func (s *spread) firewall(addr netip.Addr) {
	name, to := s.owned(fromRanges, s.owner, ""), s.owned(fromOthers, s.owner, "")
	ranges := s.merged(s.pool.SourceRanges)
	var b strings.Builder
	if s.made[name] == "" {
		for _, p := range ranges {
			fmt.Fprintf(&b, "-A %s %s-j %s\n", name, within("-s", p), to)
		}
	}
	if slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return slices.ContainsFunc(s.here, p.Contains) }) {
		fmt.Fprintf(&b, "-A %s %s-j %s\n", name, exactly("-s", addr), to)
	}
	s.made[name] += b.String()
}
