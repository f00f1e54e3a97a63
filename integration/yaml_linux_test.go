package integration

import (
	"fmt"
	"net/netip"
	"strings"
)

// svc is a Service of the namespace shop with its slices, as a test writes it. Its String is YAML.
type svc struct {
	name     string
	created  string   // RFC 3339
	kind     string   // default ClusterIP
	ips      []string // clusterIPs
	ports    []port
	affinity int // seconds; 0 = none
	external []string
	balancer []string
	pods     []endpoint
	mode     string // of its annotation; empty = none
}

// port is one of a Service, and what number it has in the pods.
type port struct {
	name, protocol       string
	number, node, target int
}

// endpoint is a pod in a slice, or without a name only an address. The zero address leaves a family out.
type endpoint struct {
	pod        string
	v4, v6     netip.Addr
	conditions string // default ready: true
}

func (s svc) String() string {
	return s.service() + s.slice("IPv4", endpoint.addr4) + s.slice("IPv6", endpoint.addr6)
}

func (e endpoint) addr4() netip.Addr { return e.v4 }
func (e endpoint) addr6() netip.Addr { return e.v6 }

func parse(addr string) netip.Addr { return netip.MustParseAddr(addr) }

func (s svc) service() string {
	var b strings.Builder
	kind := s.kind
	if kind == "" {
		kind = "ClusterIP"
	}
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: shop\n", s.name)
	if s.created != "" {
		fmt.Fprintf(&b, "  creationTimestamp: %q\n", s.created)
	}
	if s.mode != "" {
		fmt.Fprintf(&b, "  annotations: {portald.io/mode: %s}\n", s.mode)
	}
	fmt.Fprintf(&b, "spec:\n  type: %s\n", kind)
	if len(s.ips) > 0 {
		fmt.Fprintf(&b, "  clusterIP: %q\n  clusterIPs: %s\n", s.ips[0], list(s.ips))
	}
	if len(s.external) > 0 {
		fmt.Fprintf(&b, "  externalIPs: %s\n", list(s.external))
	}
	if s.affinity > 0 {
		fmt.Fprintf(&b, "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: %d}}\n", s.affinity)
	}
	b.WriteString("  ports:\n")
	for _, p := range s.ports {
		fmt.Fprintf(&b, "  - {name: %q, protocol: %s, port: %d, targetPort: %q", p.name, p.protocol, p.number, "in-"+p.name)
		if p.node > 0 {
			fmt.Fprintf(&b, ", nodePort: %d", p.node)
		}
		b.WriteString("}\n")
	}
	if len(s.balancer) > 0 {
		b.WriteString("status:\n  loadBalancer:\n    ingress:\n")
		for _, ip := range s.balancer {
			fmt.Fprintf(&b, "    - ip: %q\n", ip)
		}
	}
	return b.String()
}

func list(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }

func (s svc) slice(family string, addr func(endpoint) netip.Addr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: %s-%s\n  namespace: shop\n",
		s.name, strings.ToLower(family))
	fmt.Fprintf(&b, "  labels:\n    kubernetes.io/service-name: %s\naddressType: %s\nports:\n", s.name, family)
	for _, p := range s.ports {
		fmt.Fprintf(&b, "- {name: %q, protocol: %s, port: %d}\n", p.name, p.protocol, p.target)
	}
	found := 0
	var endpoints strings.Builder
	for _, e := range s.pods {
		if !addr(e).IsValid() {
			continue
		}
		found++
		conditions := e.conditions
		if conditions == "" {
			conditions = "ready: true"
		}
		fmt.Fprintf(&endpoints, "- addresses: [%q]\n  conditions: {%s}\n  nodeName: here\n", addr(e), conditions)
		if e.pod != "" {
			fmt.Fprintf(&endpoints, "  targetRef: {kind: Pod, namespace: shop, name: %s}\n", e.pod)
		}
	}
	if found == 0 {
		return b.String() + "endpoints: []\n"
	}
	return b.String() + "endpoints:\n" + endpoints.String()
}
