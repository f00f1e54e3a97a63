package layout

import (
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// internalOnly gives a verdict to packets of clients inside the cluster, pods and this node, and drops the packets of
// others.
func (r Rules) internalOnly(inside nft.Verdict, s Scope) []nft.Rule {
	out := []nft.Rule{{nft.LocalAddress(true), inside}}
	for _, match := range r.pods(false) {
		out = append(out, nft.Rule{match, inside})
	}
	return append(out, dropOutside(s)...)
}

// dropOutside drops the packets of clients outside the cluster, and counts them at their portals.
func dropOutside(scopes ...Scope) (out []nft.Rule) {
	for _, s := range scopes {
		out = append(out, nft.Rule{nft.ElementOf(s.Outside), nft.Drop()})
	}
	return append(out, nft.Rule{nft.Drop()})
}

// pods are matches for packets of pods, of which any is enough; or, if not, for packets of others, which need all.
func (r Rules) pods(not bool) []nft.Statement {
	var out []nft.Statement
	for _, p := range r.inside.Sources {
		if r.Family.Owns(p.Addr()) && p.Bits() > 0 {
			out = append(out, r.Family.From(p.Masked(), not))
		}
	}
	if name := r.inside.Interface; name != "" {
		out = append(out, nft.FromInterface(name, false, not))
	}
	if name := r.inside.InterfacePrefix; name != "" {
		out = append(out, nft.FromInterface(name, true, not))
	}
	return out
}

// clientMarks mark the clients of ClusterIPs that are to be masqueraded.
func (r Rules) clientMarks() []nft.Rule {
	f := r.forwarding(service.ClusterIP, portal.Spread{Pool: &portal.Pool{}})
	switch {
	case f.Pods.Masquerade:
		return []nft.Rule{{nft.Mark(r.Masquerade.Mark)}}
	case f.Outside.Masquerade:
		return []nft.Rule{append(nft.Rule(r.pods(true)), nft.Mark(r.Masquerade.Mark))}
	}
	return nil
}
