package doctor

import (
	"fmt"
	"strings"

	"github.com/portald/portald/platform/netfilter"
)

func variantChecks() []Check {
	return []Check{{
		Name: "iptables-variant", Severity: Warning, System: linux,
		What: "kubelet, or another program of the node, uses the other variant of iptables than portald",
		Why: "Packets pass the rules of both variants: one may drop what the other accepts, and a listing of " +
			"one does not show the other. portald chooses its variant at start, when kubelet may not have run yet.",
		Do:  "restart portald, or set iptablesVariant",
		run: variantIsKubelets,
	}}
}

// variantIsKubelets looks for kubelet's chains in the variant that portald writes, which its chains tell.
func variantIsKubelets(f *Facts) result {
	d, err := f.daemon()
	switch {
	case err != nil:
		return unknown(err)
	case d.Writer == nftables:
		return well("portald writes by %s", d.Writer)
	}
	all, unread := f.proxyChains()
	var by netfilter.Program
	for _, c := range all {
		if d.owns(c, all) {
			by = c.table.Program
		}
	}
	if by == "" {
		if unread != nil {
			return unknown(unread)
		}
		return well("portald has no chains of iptables yet")
	}
	kubelet := map[netfilter.Program]string{}
	for _, t := range f.Rules.Value.Tables {
		for _, c := range t.Chains {
			if t.Name == "mangle" && (c.Name == "KUBE-IPTABLES-HINT" || c.Name == "KUBE-KUBELET-CANARY") {
				kubelet[t.Program] = fmt.Sprintf("%s (%s)", c.Name, t)
			}
		}
	}
	if kubelet[by] != "" {
		return well("portald writes %s, and kubelet has %s", by, kubelet[by])
	}
	for program, seen := range kubelet {
		if program != netfilter.NFTables {
			return result{problems: []problem{{
				seen: fmt.Sprintf("portald writes %s, and kubelet has %s", by, seen),
				do:   "restart portald, or set iptablesVariant: " + strings.TrimPrefix(string(program), "iptables-"),
			}}}
		}
	}
	return well("portald writes %s; kubelet has no chains that tell which variant it uses", by)
}
