package nftables

import (
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// insiders lets clients inside the cluster go one way and others another.
func (r rules) insiders(inside, outside verdict) []rule {
	out := []rule{{local{source: true}, inside}}
	for _, match := range r.pods(false) {
		out = append(out, rule{match, inside})
	}
	return append(out, rule{outside})
}

// pods are the matches, each enough, for packets of pods; or those, all needed, for packets of others.
func (r rules) pods(not bool) []statement {
	var out []statement
	for _, p := range r.inside.Sources {
		if r.owns(p.Addr()) && p.Bits() > 0 {
			out = append(out, address{source: true, not: not, prefix: p.Masked()})
		}
	}
	if name := r.inside.Interface; name != "" {
		out = append(out, device{not: not, name: name})
	}
	if name := r.inside.InterfacePrefix; name != "" {
		out = append(out, device{not: not, begins: true, name: name})
	}
	return out
}

// clientMarks mark the clients of ClusterIPs that are to be masqueraded.
func (r rules) clientMarks() []rule {
	f := r.forwarding(service.ClusterIP, portal.Spread{Pool: &portal.Pool{}})
	switch {
	case f.Pods.Masquerade:
		return []rule{{mark{r.masquerade.Mark}}}
	case f.Outside.Masquerade:
		return []rule{append(rule(r.pods(true)), mark{r.masquerade.Mark})}
	}
	return nil
}
