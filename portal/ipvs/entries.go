package ipvs

import (
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// entries are the elements of sets that a portal needs beside its virtual servers. Some may be listed twice.
func (n localNode) entries(p portal.Portal) []entry {
	if !spreads(p) {
		return nil
	}
	forwarding := n.forwarding(p)
	out := n.masqueraded(p, forwarding)
	used, inside := endpoints(forwarding)
	for _, e := range used {
		if e.MayHairpin {
			f := service.Frontend{Addr: e.Addr, Protocol: p.Frontend.Protocol}
			out = append(out, atFrontend(hairpins, f).of(single(e.Addr.Addr())))
		}
	}
	if inside {
		out = append(out, n.each(insideOnly, p.Frontend)...)
	}
	if !forwarding.AdmitsAll() {
		out = append(out, n.admitted(p.Frontend, forwarding)...)
	}
	return out
}

// each are the entries of all virtual servers that a frontend may have.
func (n localNode) each(id setID, f service.Frontend) (out []entry) {
	for _, s := range n.servers(f) {
		out = append(out, atFrontend(id, s))
	}
	return out
}

// masqueraded are the entries by which rules find which clients to masquerade beside this node itself.
func (n localNode) masqueraded(p portal.Portal, f portal.Forwarding) []entry {
	if !f.Outside.Masquerade {
		return nil
	}
	switch p.Kind {
	case service.ClusterIP:
		return []entry{atFrontend(clusterIPs, p.Frontend)}
	case service.NodePort:
		return n.each(nodePorts, p.Frontend)
	case service.LoadBalancerIP:
		return []entry{atFrontend(loadBalancers, p.Frontend)}
	}
	return []entry{atFrontend(externalIPs, p.Frontend)}
}

// admitted are the entries of a load balancer that only ranges of clients may use; no set can hold the range of all.
// This node's own clients come from the frontend's address, since that is the node's.
func (n localNode) admitted(front service.Frontend, f portal.Forwarding) []entry {
	out := []entry{atFrontend(restricted, front)}
	for _, r := range f.SourceRanges {
		out = append(out, atFrontend(sources, front).of(r))
	}
	if f.AdmitsNode {
		out = append(out, atFrontend(sourceHosts, front).of(single(front.Addr.Addr())))
	}
	return out
}
