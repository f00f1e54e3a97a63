package nftables

import (
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// insiders gives clients inside the cluster one verdict and others another.
func (r rules) insiders(inside, outside verdict) []rule {
	out := []rule{{localAddress(true), inside}}
	for _, match := range r.pods(false) {
		out = append(out, rule{match, inside})
	}
	return append(out, rule{outside})
}

// pods are matches for packets of pods, of which one is enough; or else those for packets of others, all of which are
// needed.
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
