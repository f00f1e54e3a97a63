package nftables

import (
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// internalOnly gives a verdict to packets of clients inside the cluster, pods and this node, and drops those of others.
func (r rules) internalOnly(inside verdict) []rule {
	out := []rule{{localAddress(true), inside}}
	for _, match := range r.pods(false) {
		out = append(out, rule{match, inside})
	}
	return append(out, rule{drop()})
}

// pods are matches for packets of pods, of which any is enough; or, if not, for packets of others, which need all.
func (r rules) pods(not bool) []statement {
	var out []statement
	for _, p := range r.inside.Sources {
		if r.owns(p.Addr()) && p.Bits() > 0 {
			out = append(out, r.from(p.Masked(), not))
		}
	}
	if name := r.inside.Interface; name != "" {
		out = append(out, fromInterface(name, false, not))
	}
	if name := r.inside.InterfacePrefix; name != "" {
		out = append(out, fromInterface(name, true, not))
	}
	return out
}

// clientMarks mark the clients of ClusterIPs that are to be masqueraded.
func (r rules) clientMarks() []rule {
	f := r.forwarding(service.ClusterIP, portal.Spread{Pool: &portal.Pool{}})
	switch {
	case f.Pods.Masquerade:
		return []rule{{mark(r.masquerade.Mark)}}
	case f.Outside.Masquerade:
		return []rule{append(rule(r.pods(true)), mark(r.masquerade.Mark))}
	}
	return nil
}
