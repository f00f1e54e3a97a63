//go:build linux

package main

import (
	"strings"

	"github.com/portald/portald/integration/cluster"
)

// annotated is the name of the proxy whose Services have the annotations of the flag.
const annotated = "portald-annotated"

// proxy is a service proxy under test.
type proxy struct {
	name        string
	annotations map[string]string // of the Services
	line        func(b *bed) []string
}

func (p proxy) title() string { return p.name }

// allProxies lists portald, portald with annotations if there are any, and kube-proxy in its modes.
func allProxies(annotations string) []proxy {
	all := []proxy{{name: "portald", line: portald}}
	if annotations != "" {
		all = append(all, proxy{name: annotated, annotations: parseAnnotations(annotations), line: portald})
	}
	return append(all, kubeProxy("iptables"), kubeProxy("nftables"))
}

// parseAnnotations reads KEY=VALUE,KEY=VALUE. A part without = belongs to the value before it, which may have commas.
func parseAnnotations(text string) map[string]string {
	all := map[string]string{}
	last := ""
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		if !found {
			all[last] += "," + part
			continue
		}
		if !strings.Contains(key, "/") {
			key = "portald.io/" + key
		}
		all[key], last = value, key
	}
	return all
}

func portald(b *bed) []string {
	return []string{b.set.portald, "--kubeconfig", b.api.Kubeconfig(cluster.Proxy), "--hostname-override", b.node,
		"--cluster-cidr", clusterCIDR, "--connection-log", b.recordsFile(), "--connection-log-format", "json"}
}

func kubeProxy(mode string) proxy {
	return proxy{name: "kube-proxy-" + mode, line: func(b *bed) []string {
		line := b.api.KubeProxy(b.node, mode, clusterCIDR)
		if b.set.kubeproxy != "" {
			line = append([]string{b.set.kubeproxy}, line[2:]...)
		}
		return line
	}}
}
