package migrate

import (
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// A node goes from kube-proxy in each mode to modes of portald and back. All new connections and exchanges succeed. Open
// connections that the kernel carries live on through all of it, and those in userspace until portald ends. The node is
// then as its twin, which only ever had kube-proxy.
func TestThereAndBack(t *testing.T) {
	b := apibed.New(t, 1, 4)
	s, n := b.Sites[0], b.API.Namespace(t, "shop")
	b.AddPods(n, "cart", "a0", "a1")
	b.AddPods(n, "late", "a2")
	services(n)
	twin := newTwin(b)
	for _, node := range []*bed.Bed{s.Bed, twin} {
		plant(node)
	}
	for _, mode := range []string{"iptables", "nftables"} {
		proxy := func(on *bed.Bed) *kubeProxy {
			return &kubeProxy{b: on, program: kubeProxyProgram(), mode: mode,
				kubeconfig: b.API.Kubeconfig(cluster.Proxy)}
		}
		m := &migration{Bed: s.Bed, proxy: proxy(s.Bed), addresses: addresses(s.Bed), changed: marks[mode]}
		m.before = func() {
			remove(n, "late")
			n.Service("gone", alike("cart", 30082, "10.96.0.12", "fd00:10:96::12"))
			s.Eventually("kube-proxy to see the Services", func() bool {
				now := m.ruleset()
				return strings.Contains(now, "10.96.0.12") && strings.Contains(now, "fd00:10:96::12") &&
					!strings.Contains(now, "10.96.0.13") && !strings.Contains(now, "fd00:10:96::13")
			})
		}
		m.meanwhile = func() {
			n.DeleteService("gone")
			n.Service("late", alike("late", 30083, "10.96.0.13", "fd00:10:96::13"))
			for _, to := range []string{"10.96.0.13", "fd00:10:96::13"} {
				b.Answers(s.Client, "tcp", apibed.On80(to), "a2")
			}
		}
		var want []string
		m.want = func() []string {
			if want == nil {
				want = m.stateOf(proxy(twin))
			}
			return want
		}
		m.proxy.start()
		m.served()
		m.load = newLoad(s.Bed, m.addresses...)
		for _, w := range ways() {
			if w.often || *full {
				m.thereAndBack(w)
			}
		}
		m.load.finish()
		m.proxy.stop()
		m.proxy.cleanUp()
		proxy(twin).cleanUp()
	}
}

// marks match the rules that kube-proxy has for the Service late, in each family.
var marks = map[string][]*regexp.Regexp{
	"iptables": {
		regexp.MustCompile(`-A KUBE-SVC-.*shop/late:http -> 10`), regexp.MustCompile(`-A KUBE-SVC-.*shop/late:http -> \[fd`),
	},
	"nftables": {
		regexp.MustCompile(`chain service-\w+-shop/late/tcp/http \{\n.* 10\.244\.`),
		regexp.MustCompile(`chain service-\w+-shop/late/tcp/http \{\n.* fd00:`),
	},
}

// addresses are those of cart.
func addresses(b *bed.Bed) []string {
	return []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(b.Node.IPv4.String(), bed.NodePort)}
}

// services makes Services of each kind.
func services(n *cluster.Namespace) {
	n.Service("cart", alike("cart", bed.NodePort, bed.IP4, bed.IP6))
	n.Service("nobody", alike("nobody", 30081, "10.96.0.11", "fd00:10:96::11"))
	sticky := alike("cart", 30084, "10.96.0.14", "fd00:10:96::14")
	sticky.SessionAffinity = corev1.ServiceAffinityClientIP
	n.Service("sticky", sticky)
	local := alike("cart", 30085, "10.96.0.15", "fd00:10:96::15")
	local.Type, local.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	local.HealthCheckNodePort, local.LoadBalancerSourceRanges = healthCheck, []string{"192.168.0.0/16", "fd00::/16"}
	local.ExternalIPs = []string{"203.0.113.9"}
	n.Service("local", local)
	n.SetIngress("local", "203.0.113.1", "2001:db8::1")
}

// alike is a dual-stack Service of type NodePort with TCP and UDP at port 80.
func alike(app string, nodePort int32, ips ...string) corev1.ServiceSpec {
	both := corev1.IPFamilyPolicyRequireDualStack
	spec := corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &both, ClusterIP: ips[0], ClusterIPs: ips,
		Ports: apibed.Web(), Selector: map[string]string{"app": app}}
	for i := range spec.Ports {
		spec.Ports[i].NodePort = nodePort
	}
	return spec
}

// remove deletes a Service if it is there.
func remove(n *cluster.Namespace, name string) {
	n.Helper()
	n.Kubectl("", "delete", "service", name, "--ignore-not-found")
}

// newTwin is a node with the same addresses in a network of its own, whose API server is the same.
func newTwin(b *apibed.Bed) *bed.Bed {
	b.Helper()
	all, err := topology.NewCluster(b.Context(), 1, topology.Options{Clients: 2, Pods: 4, IPv6: true,
		Name: fmt.Sprintf("n%d-twin-", bed.Networks.Add(1))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { b.Sites[0].Must(all.Close()) })
	lan := all.Nets[0]
	twin := &bed.Bed{T: b.T, Net: lan, Node: lan.Node, Client: lan.Client(0), Dir: b.TempDir()}
	twin.RouteOut()
	at := bed.HostPort(b.API.Host.IPv4.String(), 6443)
	l, err := all.Control.Listen("tcp", at)
	twin.Must(err)
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go forward(c, b.API.Host, at)
		}
	}()
	return twin
}

// forward connects to an address from a host, and copies in both directions until one of them ends.
func forward(c net.Conn, from *topology.Host, to string) {
	defer c.Close()
	server, err := from.Dial(context.Background(), "tcp", to)
	if err != nil {
		return // which the client sees
	}
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, server}, {server, c}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// plant gives a node rules of others: a kubelet's, a network's, and a table of nftables.
func plant(b *bed.Bed) {
	b.Helper()
	for _, command := range []string{"iptables-nft-restore", "ip6tables-nft-restore"} {
		b.On(b.Node, command, "--noflush", b.WriteManifest("others", `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:NETWORK-FORWARD - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A FORWARD -j NETWORK-FORWARD
COMMIT
*nat
:NETWORK-MASQ - [0:0]
-A POSTROUTING -j NETWORK-MASQ
COMMIT
`))
	}
	b.On(b.Node, "nft", "add table inet others; add chain inet others input { type filter hook input priority 5; }; "+
		"add rule inet others input tcp dport 9 counter drop")
}

// stateOf is the state of a node that has this kube-proxy and these Services, and that never had portald.
func (m *migration) stateOf(proxy *kubeProxy) []string {
	m.Helper()
	twin := &migration{Bed: proxy.b}
	proxy.start()
	m.Eventually("kube-proxy to be healthy on the twin", proxy.healthy)
	defer proxy.stop()
	m.Eventually("kube-proxy's rules on the twin", func() bool { return m.sees(twin.ruleset()) })
	return state(proxy.b)
}
