package bed

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Service is a Service of the namespace shop with its EndpointSlices. String returns it as YAML.
type Service struct {
	Namespace string // default shop
	Name      string
	Created   string   // RFC 3339
	Kind      string   // default ClusterIP
	IPs       []string // clusterIPs
	Ports     []Port
	Affinity  int // seconds; 0 = none
	External  []string
	Balancer  []string
	Pods      []Endpoint
	Mode      string // the mode annotation; empty = none

	Annotations []string // others, each "key: value"
}

// Port is one service port; Target is its number in the pods.
type Port struct {
	Name, Protocol       string
	Number, Node, Target int
}

// NewPort returns a service port; node 0 means no node port, target is the port number in the pods.
func NewPort(name, protocol string, number, node, target int) Port {
	return Port{Name: name, Protocol: protocol, Number: number, Node: node, Target: target}
}

// Endpoint is an endpoint of a slice; an empty Pod means no target reference. A zero address leaves the family out.
type Endpoint struct {
	Pod        string
	V4, V6     netip.Addr
	Conditions string // default ready: true
	Node       string // default "here", the node of Launch
}

func (s Service) String() string {
	var b strings.Builder
	for _, o := range s.Objects() {
		b.WriteString(o.YAML)
	}
	return b.String()
}

// Object is an object of the API, by the name of its resource: "services" or "endpointslices".
type Object struct{ Resource, Name, YAML string }

// Objects are the Service, and its slice of each address family.
func (s Service) Objects() []Object {
	return []Object{
		{"services", s.Name, s.Service()},
		{"endpointslices", s.slice("IPv4"), s.Slice("IPv4", Endpoint.Addr4)},
		{"endpointslices", s.slice("IPv6"), s.Slice("IPv6", Endpoint.addr6)},
	}
}

func (s Service) namespace() string { return cmp.Or(s.Namespace, "shop") }

// slice is the name of the EndpointSlice of an address family.
func (s Service) slice(family string) string { return s.Name + "-" + strings.ToLower(family) }

// Addr4 is the IPv4 address of the endpoint.
func (e Endpoint) Addr4() netip.Addr { return e.V4 }
func (e Endpoint) addr6() netip.Addr { return e.V6 }

// Parse is netip.MustParseAddr.
func Parse(addr string) netip.Addr { return netip.MustParseAddr(addr) }

// Service is the YAML of the Service object alone.
func (s Service) Service() string {
	var b strings.Builder
	kind := s.Kind
	if kind == "" {
		kind = "ClusterIP"
	}
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: %s\n", s.Name,
		s.namespace())
	if s.Created != "" {
		fmt.Fprintf(&b, "  creationTimestamp: %q\n", s.Created)
	}
	annotations := s.Annotations
	if s.Mode != "" {
		annotations = append([]string{"portald.io/mode: " + s.Mode}, annotations...)
	}
	fmt.Fprintf(&b, "  annotations: {%s}\n", strings.Join(annotations, ", "))
	fmt.Fprintf(&b, "spec:\n  type: %s\n", kind)
	if len(s.IPs) > 0 {
		fmt.Fprintf(&b, "  clusterIP: %q\n  clusterIPs: %s\n", s.IPs[0], list(s.IPs))
	}
	if len(s.IPs) > 1 {
		b.WriteString("  ipFamilyPolicy: RequireDualStack\n")
	}
	if len(s.External) > 0 {
		fmt.Fprintf(&b, "  externalIPs: %s\n", list(s.External))
	}
	if s.Affinity > 0 {
		fmt.Fprintf(&b, "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: %d}}\n",
			s.Affinity)
	}
	b.WriteString("  ports:\n")
	for _, p := range s.Ports {
		fmt.Fprintf(&b, "  - {name: %q, protocol: %s, port: %d, targetPort: %q", p.Name, p.Protocol, p.Number, "in-"+p.Name)
		if p.Node > 0 {
			fmt.Fprintf(&b, ", nodePort: %d", p.Node)
		}
		b.WriteString("}\n")
	}
	if len(s.Balancer) > 0 {
		b.WriteString("status:\n  loadBalancer:\n    ingress:\n")
		for _, ip := range s.Balancer {
			fmt.Fprintf(&b, "    - ip: %q\n", ip)
		}
	}
	return b.String()
}

func list(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }

// Slice is the YAML of the EndpointSlice of one address family.
func (s Service) Slice(family string, addr func(Endpoint) netip.Addr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: %s\n  "+
		"namespace: %s\n", s.slice(family), s.namespace())
	fmt.Fprintf(&b, "  labels:\n    kubernetes.io/service-name: %s\naddressType: %s\nports:\n", s.Name, family)
	for _, p := range s.Ports {
		fmt.Fprintf(&b, "- {name: %q, protocol: %s, port: %d}\n", p.Name, p.Protocol, p.Target)
	}
	found := 0
	var endpoints strings.Builder
	for _, e := range s.Pods {
		if !addr(e).IsValid() {
			continue
		}
		found++
		conditions := e.Conditions
		if conditions == "" {
			conditions = "ready: true"
		}
		fmt.Fprintf(&endpoints, "- addresses: [%q]\n  conditions: {%s}\n  nodeName: %s\n", addr(e), conditions,
			cmp.Or(e.Node, "here"))
		if e.Pod != "" {
			fmt.Fprintf(&endpoints, "  targetRef: {kind: Pod, namespace: %s, name: %s}\n", s.namespace(), e.Pod)
		}
	}
	if found == 0 {
		return b.String() + "endpoints: []\n"
	}
	return b.String() + "endpoints:\n" + endpoints.String()
}

// Simple is a TCP Service with one cluster IP and one pod.
func (b *Bed) Simple(name, ip string, pod int) Service {
	return Service{Name: name, IPs: []string{ip}, Ports: []Port{NewPort("http", "TCP", 80, 0, PodPort)},
		Pods: b.Endpoints(pod)}
}

// External IPs inside and outside the allowed ranges, and load balancer IPs.
const (
	Allowed4, Allowed6 = "203.0.113.10", "fd00:203::10"
	Outside4, Outside6 = "198.51.100.7", "fd00:51::7"
	Balancer4          = "198.51.100.100"
	Balancer6          = "fd00:51::100"
)
