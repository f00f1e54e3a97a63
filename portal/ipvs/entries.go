package ipvs

import (
	"net/netip"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// entries are the elements of sets that a portal needs beside its virtual servers. Some may be there twice.
func (at place) entries(p portal.Portal) []entry {
	spread, ok := p.Target.(portal.Spread)
	if !ok {
		return nil
	}
	out := at.masqueraded(p, spread.Scope)
	for _, e := range led(p) {
		if e.Here {
			f := service.Frontend{Addr: e.Addr, Protocol: p.Frontend.Protocol}
			out = append(out, atFrontend(hairpins, f).of(single(e.Addr.Addr())))
		}
	}
	if insideOnly(p) {
		out = append(out, at.each(insiders, p.Frontend)...)
	}
	if p.Kind == service.LoadBalancerIP && spread.Pool.Restricted {
		if ranges := service.Merge(spread.Pool.SourceRanges); !everyone(ranges) {
			out = append(out, at.admitted(p.Frontend, ranges)...)
		}
	}
	return out
}

// each are the entries of all virtual servers that a frontend may have.
func (at place) each(id setID, f service.Frontend) (out []entry) {
	for _, s := range at.servers(f) {
		out = append(out, atFrontend(id, s))
	}
	return out
}

// masqueraded are the entries by which rules find whom to masquerade beside this node itself: nobody, of a frontend from
// outside in NodeScope, and of a ClusterIP while nobody knows who is a pod.
func (at place) masqueraded(p portal.Portal, scope service.Scope) []entry {
	switch {
	case p.Kind == service.ClusterIP && at.strangers:
		return []entry{atFrontend(clusterIPs, p.Frontend)}
	case p.Kind == service.ClusterIP || scope == service.NodeScope:
		return nil
	case p.Kind == service.NodePort:
		return at.each(nodePorts, p.Frontend)
	case p.Kind == service.LoadBalancerIP:
		return []entry{atFrontend(loadBalancers, p.Frontend)}
	}
	return []entry{atFrontend(externalIPs, p.Frontend)}
}

// admitted are the entries of a load balancer that only ranges of clients may use. This node's own clients come from
// the frontend's address, since that is the node's: they may if one of the node's other addresses may.
func (at place) admitted(f service.Frontend, ranges []netip.Prefix) []entry {
	out := []entry{atFrontend(restricted, f)}
	for _, r := range ranges {
		out = append(out, atFrontend(sources, f).of(r))
	}
	if at.anyIn(ranges) {
		out = append(out, atFrontend(sourceHosts, f).of(single(f.Addr.Addr())))
	}
	return out
}

// everyone tells whether ranges leave nobody out, which no set of nets can hold.
func everyone(ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Bits() == 0 {
			return true
		}
	}
	return false
}
