//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/integration/cluster"
)

// proxy is a service proxy under test, in one mode.
type proxy struct {
	program, mode string
}

func (p proxy) name() string { return p.program + "-" + p.mode }

func allProxies() []proxy {
	return []proxy{
		{"portald", "userspace"}, {"portald", "nftables"}, {"kube-proxy", "nftables"},
		{"portald", "iptables"}, {"kube-proxy", "iptables"},
	}
}

func names(all []proxy) string {
	var names []string
	for _, p := range all {
		names = append(names, p.name())
	}
	return strings.Join(names, ",")
}

// choose returns the proxies with these names; all if there is none.
func choose(wanted string) ([]proxy, error) {
	all := allProxies()
	if wanted == "" {
		return all, nil
	}
	var chosen []proxy
	for name := range strings.SplitSeq(wanted, ",") {
		i := slices.IndexFunc(all, func(p proxy) bool { return p.name() == name })
		if i < 0 {
			return nil, fmt.Errorf("-proxies: no %q: know %s", name, names(all))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// command is the command line on a node.
func (l *lab) command(p proxy, node string) []string {
	if p.program == "kube-proxy" {
		return l.api.KubeProxy(node, p.mode, clusterCIDR)
	}
	return []string{l.set.portald, "--kubeconfig", l.api.Kubeconfig(cluster.Proxy), "--hostname-override", node,
		"--cluster-cidr", clusterCIDR, "--proxy-mode", p.mode, "--conntrack-max-per-core", "0"}
}
