package faults

import (
	"net/netip"
	"strings"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
)

// balanced is a Service with an address of a load balancer that only some clients may use.
const balanced = `---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  clusterIPs: ["10.96.0.10"]
  loadBalancerSourceRanges: [198.51.100.0/24]
  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 198.51.100.100}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.0.2], nodeName: here, conditions: {ready: true}}]
`

// cart are the manifests of cart with these pods, after a change.
func cart(change func(*bed.Service), pods ...int) func(*node) string {
	return func(n *node) string {
		s := n.Cart(pods...)
		change(&s)
		return s.String()
	}
}

// asks has a client connect to cart some times, whatever becomes of it.
func asks(times int) func(*node) {
	return func(n *node) {
		for range times {
			_, _ = bed.Ask(n.Client, "tcp", bed.HostPort(bed.IP4, 80))
		}
	}
}

func explainFaults() map[string]explainFault {
	http := []string{"shop/cart:http"}
	fast := []string{"--connect-timeouts", "50ms,100ms"}
	return map[string]explainFault{
		"foreign DNAT ahead": {
			of: http, verdict: "-j DNAT --to-destination 192.168.50.3:80",
			plant: command("iptables -t nat -I PREROUTING -d " + bed.IP4 + " -p tcp --dport 80 -j DNAT --to 192.168.50.3:80"),
		},
		"foreign DROP in raw": {
			of: http, verdict: "-A PREROUTING -d 10.96.0.10/32 -j DROP",
			plant: command("iptables -t raw -A PREROUTING -d " + bed.IP4 + " -j DROP"),
		},
		"foreign DROP in INPUT": {
			of: http, verdict: "--dport 11000:11100 -j DROP",
			plant: command("iptables -I INPUT -p tcp --dport 11000:11100 -j DROP"),
		},
		"foreign DROP in FORWARD": {
			of: http, verdict: "-A FORWARD -d 10.244.0.0/16 -j DROP", args: kernelMode(),
			plant: command("iptables -I FORWARD -d 10.244.0.0/16 -j DROP"),
		},
		"our rule was deleted": {
			of: http, verdict: "Rules of shop/cart:http are missing", says: "missing: iptables -t nat",
			plant: often("iptables -t nat -D PREROUTING -j PORTALD-SERVICES"),
		},
		"no endpoint is ready": {
			of: http, verdict: "None of the 1 endpoints of shop/cart:http is ready", says: "not used: it is not ready",
			manifest: cart(func(s *bed.Service) { s.Pods[0].Conditions = "ready: false" }, 0),
		},
		"there is no endpoint": {
			of: http, verdict: "shop/cart:http has no endpoint of IPv4", manifest: cart(func(*bed.Service) {}),
		},
		"endpoints on other nodes only": {
			of: http, verdict: "the traffic policy is Local", says: "it is on another node",
			manifest: func(n *node) string {
				text := strings.ReplaceAll(n.Cart(0).String(), "nodeName: here", "nodeName: there")
				return strings.ReplaceAll(text, "spec:\n", "spec:\n  internalTrafficPolicy: Local\n  externalTrafficPolicy: "+
					"Local\n")
			},
		},
		"a contested frontend": {
			of: []string{"shop/zebra"}, verdict: "the older Service shop/cart:http holds it", says: "held by shop/cart:http",
			manifest: func(n *node) string { return n.Cart(0).String() + n.Simple("zebra", bed.IP4, 0).String() },
		},
		"an endpoint is a black hole": {
			of: http, verdict: "dials of shop/cart:http", says: "dial of 10.244.0.2:8080 failed after",
			args: fast,
			plant: func(n *node) {
				n.On(n.Net.Pod(0), "iptables", "-I", "INPUT", "-p", "tcp", "--dport", "8080", "-j", "DROP")
				asks(3)(n)
			},
		},
		"an endpoint refuses": {
			of: http, verdict: "nothing listens at port 8080 there", says: "connection refused", args: fast,
			plant: func(n *node) {
				n.Refuse(0)
				asks(3)(n)
			},
		},
		"source ranges exclude the client": {
			of: []string{"shop/cart:http", "--from", "192.168.50.2"}, verdict: "loadBalancerSourceRanges leave it out",
			says: "leave out 192.168.50.2", manifest: func(*node) string { return balanced },
		},
		"all endpoints are drained": {
			of: http, verdict: "could be used are drained", says: "drained by portald drain",
			plant: func(n *node) {
				drain := adminsocket.Drain{Endpoint: netip.AddrPortFrom(n.Net.Pod(0).IPv4, bed.PodPort).String(), Force: true}
				_, err := n.daemon.Admin().Drain(n.Context(), drain)
				n.Must(err)
			},
		},
		"the limit of connections is reached": {
			of: http, verdict: "as many connections as it may", says: "more than 1 are refused",
			args:  []string{"--max-connections", "1"},
			plant: func(n *node) { n.Open(bed.HostPort(bed.IP4, 80)) },
		},
		"a client has its share": {
			of: []string{"shop/cart:http", "--from", "192.168.50.2"}, verdict: "as one client may have, 1",
			says: "192.168.50.2 has 1 connections open", args: []string{"--max-connections-per-client", "1"},
			plant: func(n *node) { n.Open(bed.HostPort(bed.IP4, 80)) },
		},
		"a service port is set aside": {
			of: []string{"shop/zebra:http"}, verdict: "shop/zebra:http cannot be served as it is written", says: "set aside",
			args:     []string{"--proxy-port-range", "11000-11000"},
			manifest: func(n *node) string { return n.Cart(0).String() + n.Simple("zebra", "10.96.0.20", 0).String() },
		},
	}
}
