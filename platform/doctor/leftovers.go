package doctor

import (
	"fmt"
	"slices"

	"github.com/portald/portald/platform/netfilter"
)

func rulesAreThere(f *Facts) result {
	services, err := f.services()
	if err != nil {
		return unknown(err)
	}
	d := &f.Daemon.Value
	all, unread := f.proxyChains()
	own := slices.DeleteFunc(slices.Clone(all), func(c chain) bool { return !d.owns(c, all) })
	switch {
	case len(services) == 0 || !d.Ready:
		return well("there is nothing to be served yet")
	case len(own) == 0 && unread != nil:
		return unknown(unread)
	case len(own) == 0:
		return wrong("", "there is no chain or table of portald for %d service ports (writer %s)", len(services), d.Writer)
	}
	return jumpsAreThere(own)
}

// jumpsAreThere looks whether packets come to the daemon's chains in the tables nat of iptables.
func jumpsAreThere(own []chain) result {
	out := result{ok: "portald's rules are there"}
	names, tables := map[string]bool{}, []*netfilter.Table{}
	for _, c := range own {
		names[c.name] = true
		if c.table.Name == "nat" && c.name != "" && !slices.Contains(tables, c.table) {
			tables = append(tables, c.table)
		}
	}
	for _, t := range tables {
		for _, base := range t.Base() {
			to := func(a netfilter.Action) bool { return a.Kind == netfilter.Jump && names[a.Chain] }
			enters := func(r *netfilter.Rule) bool { return slices.ContainsFunc(r.Actions, to) }
			translates := base.Hook == netfilter.Prerouting || base.Hook == netfilter.Output
			if translates && !slices.ContainsFunc(base.Rules, enters) {
				out.problems = append(out.problems, problem{seen: fmt.Sprintf("no rule of %s in %s leads to portald's chains",
					base.Name, t)})
			}
		}
	}
	return out
}

func noKubeProxyRules(f *Facts) result {
	all, unread := f.proxyChains()
	d, err := f.daemon()
	theirs := slices.DeleteFunc(slices.Clone(all), func(c chain) bool { return c.portald || err == nil && d.owns(c, all) })
	switch {
	case len(theirs) == 0 && unread != nil:
		return unknown(unread)
	case len(theirs) == 0:
		return well("no rules of kube-proxy")
	case err != nil:
		return wrong("", "%d chains and tables with kube-proxy's names: %s; without a portald that answers "+
			"they may be in use", len(theirs), few(theirs)).as(Note)
	case d.Alongside:
		return well("%d chains and tables of the cluster's service proxy: portald serves only Services with its label",
			len(theirs))
	}
	return wrong("", "%d chains and tables: %s", len(theirs), few(theirs))
}

func noKubeProxy(f *Facts) result {
	if f.KubeProxies.Err != nil {
		return unknown(f.KubeProxies.Err)
	}
	pids := f.KubeProxies.Value
	d, err := f.daemon()
	switch {
	case len(pids) == 0:
		return well("no kube-proxy runs")
	case err == nil && d.Alongside:
		return well("kube-proxy runs too, pid %s: portald serves only Services with its label", few(pids))
	}
	return wrong("", "kube-proxy runs on this node, pid %s", few(pids))
}

func noLeftovers(f *Facts) result {
	d, err := f.daemon()
	if err != nil {
		return unknown(err)
	}
	all, unread := f.proxyChains()
	own := slices.DeleteFunc(slices.Clone(all), func(c chain) bool { return !d.owns(c, all) })
	left := slices.DeleteFunc(slices.Clone(all), func(c chain) bool {
		proxy := proxyOf(c)
		return !c.portald || d.owns(c, all) || !slices.ContainsFunc(own, func(o chain) bool { return proxyOf(o) == proxy })
	})
	variants := map[netfilter.Program]bool{}
	for _, c := range own {
		variants[c.table.Program] = true
	}
	switch {
	case len(left) > 0:
		return wrong("", "%d chains and tables beside those of writer %s: %s", len(left), d.Writer, few(left))
	case len(variants) > 1:
		return wrong("", "portald has chains in both variants of iptables, nft and legacy")
	case unread != nil:
		return unknown(unread)
	}
	return well("no rules of portald but those of writer %s", d.Writer)
}

func noIPVSLeftovers(f *Facts) result {
	d, err := f.daemon()
	switch {
	case err != nil:
		return unknown(err)
	case d.Writer == ipvs:
		return well("IPVS is portald's")
	case f.IPVS.Err != nil:
		return unknown(f.IPVS.Err)
	}
	out := result{ok: "no virtual servers"}
	if servers := f.IPVS.Value.Servers; len(servers) > 0 {
		out.problems = append(out.problems, problem{seen: fmt.Sprintf("%d virtual servers: %s", len(servers), few(servers)),
			do: "ipvsadm --clear, if no other program uses IPVS", severity: Warning})
	}
	for _, l := range f.Links.Value {
		if l.Name == "kube-ipvs0" || l.Name == "portald-ipvs0" {
			out.problems = append(out.problems, problem{seen: fmt.Sprintf("the interface %s, with %d addresses", l.Name,
				len(l.Addresses)), do: "ip link delete " + l.Name})
		}
	}
	return out
}

func ipvsIsLoaded(f *Facts) result {
	d, err := f.daemon()
	switch {
	case err != nil:
		return unknown(err)
	case d.Writer != ipvs:
		return well("portald writes by %s", d.Writer)
	case f.IPVS.Err != nil:
		return unknown(f.IPVS.Err)
	case !f.IPVS.Value.Loaded:
		return wrong("", "the module ip_vs is not loaded")
	}
	return well("IPVS is there")
}
