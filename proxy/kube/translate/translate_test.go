package translate

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

// ports are the service ports of one Service with the endpoints of its slices, and what is wrong in the objects.
func ports(
	svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, opts Options,
) ([]*service.Port, []Problem) {
	back := make([]*trimmedSlice, len(endpointSlices))
	for i, s := range endpointSlices {
		back[i] = trimSlice(s, opts)
	}
	slices.SortStableFunc(back, compareSlices)
	return join(trimService(svc, opts), back, opts.Zone)
}

// balancer is a Service of both families with a load balancer, and balanced what is served of it.
func balancer(sourceRanges string) string {
	return objecttest.Service(`
spec:
  type: LoadBalancer
  clusterIPs: [10.96.0.7, 'fd00::7']
  loadBalancerSourceRanges: ` + sourceRanges + `
  ports: [{port: 80}]
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}, {ip: 'fd01::7'}]}}`)
}

func balanced(from string) string {
	return "shop/cart/tcp from [" + from + "]\n  ClusterIP 10.96.0.7:80/tcp\n  LoadBalancerIP 198.51.100.7:80/tcp\n" +
		"  ClusterIP [fd00::7]:80/tcp\n  LoadBalancerIP [fd01::7]:80/tcp\n"
}

func TestTranslate(t *testing.T) {
	allowed := Options{NodeName: "n1", ExternalIPs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}
	for _, c := range []struct {
		name     string
		opts     Options
		objects  string
		ports    string
		problems []string // each a part of one problem, in order
	}{
		{
			name: "both families",
			objects: objecttest.Service("spec: {type: NodePort, clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7, fd00::7], " +
				"ports: [{port: 80, nodePort: 30080}]}"),
			ports: `shop/cart/tcp
  NodePort 0.0.0.0:30080/tcp
  ClusterIP 10.96.0.7:80/tcp
  NodePort [::]:30080/tcp
  ClusterIP [fd00::7]:80/tcp
`,
		},
		{
			name: "a host without IPv6",
			opts: Options{NoIPv6: true},
			objects: objecttest.Service("spec: {type: NodePort, clusterIPs: [10.96.0.7, fd00::7], ports: [{port: 80, " +
				"nodePort: 30080}]}"),
			ports: "shop/cart/tcp\n  NodePort 0.0.0.0:30080/tcp\n  ClusterIP 10.96.0.7:80/tcp\n",
		},
		{
			name: "families of node ports as asked",
			objects: objecttest.Service("spec: {type: NodePort, clusterIP: 10.96.0.7, ipFamilies: [IPv4, IPv6, IPv5], " +
				"ports: [{port: 80, nodePort: 30080}]}"),
			ports: "shop/cart/tcp\n  NodePort 0.0.0.0:30080/tcp\n  ClusterIP 10.96.0.7:80/tcp\n  NodePort [::]:30080/tcp\n",
			problems: []string{
				`service shop/cart: spec.ipFamilies[2]: "IPv5": is not an address family`},
		},
		{name: "headless", objects: objecttest.Service("spec: {clusterIP: None, externalIPs: [203.0.113.1], ports: " +
			"[{port: 80}]}")},
		{name: "ExternalName", objects: objecttest.Service("spec: {type: ExternalName, externalName: a.example, ports: " +
			"[{port: 80}]}")},
		{
			name: "another proxy's",
			objects: "apiVersion: v1\nkind: Service\nmetadata: {name: cart, labels: " +
				"{service.kubernetes.io/service-proxy-name: other}}\nspec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}\n",
		},
		{name: "nobody's, for a named proxy", opts: Options{ServiceProxyName: "ours"},
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}")},
		{
			name: "ours by name",
			opts: Options{ServiceProxyName: "ours"},
			objects: "apiVersion: v1\nkind: Service\nmetadata: {name: cart, labels: " +
				"{service.kubernetes.io/service-proxy-name: ours}}\nspec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}\n",
			ports: "default/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n",
		},
		{
			name: "labelled headless",
			objects: "apiVersion: v1\nkind: Service\nmetadata: {name: cart, labels: {service.kubernetes.io/headless: " +
				"''}}\nspec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}\n",
		},
		{
			name:     "no address at all",
			objects:  objecttest.Service("spec: {ports: [{port: 80, name: a}, {port: 81, name: b}]}"),
			problems: []string{"spec.clusterIP: \"\": is missing"},
		},
		{
			name: "one number on TCP and UDP",
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: dns, port: 53, protocol: UDP}, {name: " +
				"dns-tcp, port: 53, protocol: TCP}]}"),
			ports: "shop/cart:dns/udp\n  ClusterIP 10.96.0.7:53/udp\nshop/cart:dns-tcp/tcp\n  ClusterIP 10.96.0.7:53/tcp\n",
		},
		{
			name: "bad ports beside a good one",
			objects: objecttest.Service(`
spec:
  clusterIP: 10.96.0.7
  ports:
  - {name: s, port: 80, protocol: SCTP}
  - {name: x, port: 80, protocol: ICMP}
  - {name: big, port: 70000}
  - {name: Bad_Name, port: 81}
  - {port: 82}
  - {name: good, port: 83, nodePort: 30083}
  - {name: good, port: 84}
  - {name: again, port: 83}`),
			ports: "shop/cart:good/tcp\n  ClusterIP 10.96.0.7:83/tcp\nshop/cart:s/sctp\n  ClusterIP 10.96.0.7:80/sctp\n",
			problems: []string{
				`spec.ports[0].protocol: "SCTP": is not carried in mode userspace, clients of this port are refused; annotate`,
				`spec.ports[1].protocol: "ICMP": is not a protocol`,
				`spec.ports[2].port: 70000: must be 1 to 65535`,
				`spec.ports[3].name: "Bad_Name": is not a port name`,
				`spec.ports[4].name: "": is missing`,
				`spec.ports[5].nodePort: 30083: needs spec.type NodePort`,
				`spec.ports[6]: "good": has the name`,
				`spec.ports[7]: "again": has the name, or the number and protocol, of port "good"`,
			},
		},
		{
			name:     "external IPs are disabled",
			objects:  objecttest.Service("spec: {clusterIP: 10.96.0.7, externalIPs: [203.0.113.1], ports: [{port: 80}]}"),
			ports:    "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n",
			problems: []string{`spec.externalIPs[0]: "203.0.113.1": is not served: external IPs are disabled`},
		},
		{
			name: "external IPs as allowed",
			opts: allowed,
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, externalIPs: [203.0.113.1, 198.51.100.1, 127.0.0.1, " +
				"'', '203.0.113.1'], ports: [{port: 80}]}"),
			ports: "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n  ExternalIP 203.0.113.1:80/tcp\n",
			problems: []string{
				`spec.externalIPs[1]: "198.51.100.1": is not served: it is in none`,
				`spec.externalIPs[2]: "127.0.0.1": is a loopback address`,
				`spec.externalIPs[3]: "": is not an IP address`,
			},
		},
		{
			name: "load-balancer addresses",
			opts: allowed,
			objects: objecttest.Service(`
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.7
  externalIPs: [203.0.113.1]
  loadBalancerSourceRanges: [' 198.51.100.0/24 ', 10.0.0.1, '::ffff:192.0.2.9/120']
  ports: [{port: 80}]
status:
  loadBalancer:
    ingress: [{ip: 203.0.113.1}, {ip: ''}, {hostname: a.example}, {ip: 203.0.113.2, ipMode: Proxy}, {ip: 203.0.113.3, ipMode: VIP}, {ip: 0.0.0.0}, {ip: x}]`),
			ports: "shop/cart/tcp from [192.0.2.0/24 198.51.100.0/24]\n  ClusterIP 10.96.0.7:80/tcp\n" +
				"  LoadBalancerIP 203.0.113.1:80/tcp\n  LoadBalancerIP 203.0.113.3:80/tcp\n",
			problems: []string{
				`spec.loadBalancerSourceRanges[1]: "10.0.0.1": is not a CIDR`,
				`status.loadBalancer.ingress[5].ip: "0.0.0.0": is the unspecified address`,
				`status.loadBalancer.ingress[6].ip: "x": is not an IP address`,
			},
		},
		{
			name: "no valid source range closes the load-balancer addresses, external or not",
			opts: allowed,
			objects: objecttest.Service(`
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.7
  externalIPs: [203.0.113.1]
  loadBalancerSourceRanges: [nobody]
  ports: [{port: 80}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.1}]}}`),
			ports:    "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n",
			problems: []string{`loadBalancerSourceRanges[0]: "nobody"`, `has no valid range of IPv4`},
		},
		{
			name:  "a family without source ranges is open, as with kube-proxy",
			opts:  allowed,
			ports: balanced("10.0.0.0/8"), objects: balancer("[10.0.0.0/8]"),
			problems: []string{"[10.0.0.0/8]\": has no range of IPv6, so everyone may use the load-balancer addresses of IPv6"},
		},
		{
			name: "everyone, said of one family", opts: allowed, ports: balanced("0.0.0.0/0"), objects: balancer("[0.0.0.0/0]"),
		},
		{
			name: "source ranges of both families", opts: allowed, objects: balancer("[0.0.0.0/0, 'fd00::/8']"),
			ports: balanced("0.0.0.0/0 fd00::/8"),
		},
		{
			name: "a source range that cannot be read may be of the family that has no other",
			opts: allowed, objects: balancer("['fdOO::/8', 10.0.0.0/8]"),
			ports: "shop/cart/tcp from [10.0.0.0/8]\n  ClusterIP 10.96.0.7:80/tcp\n" +
				"  LoadBalancerIP 198.51.100.7:80/tcp\n  ClusterIP [fd00::7]:80/tcp\n",
			problems: []string{`loadBalancerSourceRanges[0]: "fdOO::/8": is not a CIDR`,
				"has no valid range of IPv6, so the load-balancer addresses of IPv6 are not served"},
		},
		{
			name: "leading zeros mean nothing",
			opts: Options{ExternalIPs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}},
			objects: objecttest.Service(`
spec:
  type: LoadBalancer
  clusterIP: 010.096.000.010
  clusterIPs: [010.096.000.010]
  externalIPs: [203.000.113.001]
  loadBalancerSourceRanges: [' 010.000.000.000/08', 198.051.100.009/024]
  ports: [{port: 80}]
status: {loadBalancer: {ingress: [{ip: 198.051.100.007}]}}`) +
				objecttest.Slice("a", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [010.244.000.002]}, {addresses: "+
					"['::ffff:010.244.0.5']}]"),
			ports: "shop/cart/tcp from [10.0.0.0/8 198.51.100.0/24]\n  ClusterIP 10.96.0.10:80/tcp\n" +
				"  LoadBalancerIP 198.51.100.7:80/tcp\n  ExternalIP 203.0.113.1:80/tcp\n" +
				"  -> 10.244.0.2:80 ready serving\n  -> 10.244.0.5:80 ready serving\n",
		},
		{
			name: "a left-over status",
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}\nstatus: {loadBalancer: " +
				"{ingress: [{ip: 203.0.113.1}]}}"),
			ports: "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n",
		},
		{
			name:    "affinity by default for three hours",
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, sessionAffinity: ClientIP, ports: [{port: 80}]}"),
			ports:   "shop/cart/tcp affinity 3h0m0s\n  ClusterIP 10.96.0.7:80/tcp\n",
		},
		{
			name: "affinity as asked",
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, sessionAffinity: ClientIP, sessionAffinityConfig: " +
				"{clientIP: {timeoutSeconds: 86400}}, ports: [{port: 80}]}"),
			ports: "shop/cart/tcp affinity 24h0m0s\n  ClusterIP 10.96.0.7:80/tcp\n",
		},
		{
			name: "affinity out of range",
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, sessionAffinity: ClientIP, sessionAffinityConfig: " +
				"{clientIP: {timeoutSeconds: 0}}, ports: [{port: 80}]}"),
			ports:    "shop/cart/tcp affinity 3h0m0s\n  ClusterIP 10.96.0.7:80/tcp\n",
			problems: []string{"timeoutSeconds: 0: must be 1 to 86400; 10800 is used"},
		},
		{
			name:     "affinity of an unknown kind",
			objects:  objecttest.Service("spec: {clusterIP: 10.96.0.7, sessionAffinity: Cookie, ports: [{port: 80}]}"),
			ports:    "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n",
			problems: []string{`spec.sessionAffinity: "Cookie": is not an affinity`},
		},
		{
			name: "addresses nobody may have",
			objects: objecttest.Service("spec: {clusterIPs: [0.0.0.0, 127.0.0.1, 169.254.1.1, 224.0.0.1, 255.255.255.255, " +
				"'::', 10.0.0.1.1, fe80::1%eth0, '::ffff:10.96.0.9', 127.000.000.01], ports: [{port: 80}]}"),
			ports: "shop/cart/tcp\n  ClusterIP 10.96.0.9:80/tcp\n",
			problems: []string{"unspecified address", "loopback", "link-local", "multicast", "broadcast",
				"unspecified address", "is not an IP", "has a zone", "loopback"},
		},
		{
			name: "conditions, names and places of endpoints",
			opts: Options{NodeName: "n1"},
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: http, port: 80}]}") + objecttest.Slice("a", "IPv4", `
ports: [{name: http, port: 8080, protocol: TCP}, {name: http, port: 8081, protocol: UDP}, {name: other, port: 9}, {name: http}, {name: http, port: 0}]
endpoints:
- {addresses: [10.244.0.9, 10.244.0.10]}
- {addresses: [10.244.0.2], nodeName: n1, zone: z1, conditions: {ready: false, serving: true, terminating: true}, targetRef: {kind: Pod, name: p}}
- {addresses: [10.244.0.3], nodeName: n2, conditions: {ready: false, serving: false}, targetRef: {kind: Pod, name: q, namespace: shop}}
- {addresses: [10.244.0.4], targetRef: {kind: Node, name: q}}`),
			ports: `shop/cart:http/tcp
  ClusterIP 10.96.0.7:80/tcp
  -> 10.244.0.2:8080 local serving terminating shop/p n1 z1
  -> 10.244.0.3:8080 shop/q n2
  -> 10.244.0.4:8080 ready serving
  -> 10.244.0.9:8080 ready serving
`,
		},
		{
			name: "several slices, one address in two, two target ports",
			opts: Options{NodeName: "n1"},
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7, 'fd00::7'], ports: "+
				"[{port: 80}]}") +
				objecttest.Slice("b", "IPv4", "ports: [{port: 81}]\nendpoints: [{addresses: [10.244.0.2]}, {addresses: "+
					"['::ffff:10.244.0.5']}]") +
				objecttest.Slice("a", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2], nodeName: n2, "+
					"conditions: {ready: false}}, {addresses: [10.244.0.3], nodeName: n1}]") +
				objecttest.Slice("c", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2], nodeName: n3}, "+
					"{addresses: [10.244.0.3], nodeName: n2, conditions: {terminating: true}}]") +
				objecttest.Slice("d", "IPv6", "ports: [{port: 80}]\nendpoints: [{addresses: ['fd01::2']}]"),
			ports: `shop/cart/tcp
  ClusterIP 10.96.0.7:80/tcp
  ClusterIP [fd00::7]:80/tcp
  -> 10.244.0.2:80 ready serving n3
  -> 10.244.0.2:81 ready serving
  -> 10.244.0.3:80 local ready serving n1
  -> 10.244.0.5:81 ready serving
  -> [fd01::2]:80 ready serving
`,
		},
		{
			name: "endpoints nobody may have",
			objects: objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: a, port: 80}, {name: b, port: 81}]}") +
				objecttest.Slice("a", "IPv4", `
ports: [{name: a, port: 80}, {name: b, port: 81}, {name: a, port: 70000}, {name: a, port: 82, protocol: X}]
endpoints: [{addresses: [127.0.0.1]}, {addresses: [169.254.169.254]}, {addresses: [224.0.0.1]}, {addresses: [0.0.0.0]}, {addresses: ['::ffff:127.0.0.1']}, {addresses: [fd01::1]}, {addresses: [x]}, {addresses: []}, {addresses: [10.244.0.1]}]`) +
				objecttest.Slice("b", "IPv5", "ports: [{name: a, port: 80}]\nendpoints: [{addresses: [10.244.0.2]}]") +
				objecttest.Slice("c", "FQDN", "ports: [{name: a, port: 80}]\nendpoints: [{addresses: [a.example]}]"),
			ports: "shop/cart:a/tcp\n  ClusterIP 10.96.0.7:80/tcp\n  -> 10.244.0.1:80 ready serving\n" +
				"shop/cart:b/tcp\n  ClusterIP 10.96.0.7:81/tcp\n  -> 10.244.0.1:81 ready serving\n",
			problems: []string{
				"endpointslice shop/a: ports[2].port: 70000", `ports[3].protocol: "X"`,
				`endpoints[0].addresses[0]: "127.0.0.1": is a loopback address; portald refuses`,
				`endpoints[1].addresses[0]: "169.254.169.254": is a link-local address; portald refuses`, "multicast",
				"unspecified address",
				"loopback", "is not of the slice's addressType IPv4", "is not an IP address",
				"endpoints[7].addresses: \"\": is empty",
				`endpointslice shop/b: addressType: "IPv5"`, `endpointslice shop/c: addressType: "FQDN": no service proxy`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ports, problems := translated(t, c.objects, c.opts)
			if diff := cmp.Diff(c.ports, ports); diff != "" {
				t.Errorf("ports (-want +got)\n%s", diff)
			}
			wantProblems(t, c.problems, problems)
		})
	}
}
