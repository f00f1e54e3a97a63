package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// nodeToBeDeleted checks that a node marked by the autoscaler fails load balancers' health checks but keeps serving.
func nodeToBeDeleted(b *apibed.Bed, n *cluster.Namespace) {
	node := b.Sites[1]
	s := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0")
	says := func(code int, eligible string) {
		b.Helper()
		b.Eventually(fmt.Sprintf("/healthz to return %d", code), func() bool {
			got, body, err := node.Get("127.0.0.1:10256", "/healthz")
			return err == nil && got == code && strings.Contains(body, `"nodeEligible":`+eligible)
		})
		if got, _, err := node.Get("127.0.0.1:10256", "/livez"); got != http.StatusOK {
			b.Errorf("/livez returns %d, %v", got, err)
		}
	}
	says(http.StatusOK, "true")
	n.Kubectl("", "taint", "node", "b", "ToBeDeletedByClusterAutoscaler=1:NoSchedule")
	says(http.StatusServiceUnavailable, "false")
	b.AnswersBoth(node.Client, apibed.On80(s.Spec.ClusterIP), "a0")
	n.Kubectl("", "taint", "node", "b", "ToBeDeletedByClusterAutoscaler-")
	says(http.StatusOK, "true")
}

// startSettings checks settings that apply at the start: sysctls (per network namespace, except the size of the
// conntrack table), oom_score_adj and profiling.
func startSettings(b *apibed.Bed, _ *cluster.Namespace) {
	s := b.Sites[7]
	d := b.ServeOn(s, "--conntrack-tcp-timeout-established=5h", "--conntrack-udp-timeout=25s",
		"--conntrack-udp-timeout-stream=99s",
		"--conntrack-tcp-be-liberal", "--oom-score-adj=321", "--profiling")
	for name, want := range map[string]string{
		"tcp_timeout_established": "18000", "tcp_timeout_close_wait": "3600", "tcp_be_liberal": "1",
		"udp_timeout": "25", "udp_timeout_stream": "99",
	} {
		if got := strings.TrimSpace(s.On(s.Node, "cat", "/proc/sys/net/netfilter/nf_conntrack_"+name)); got != want {
			b.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", d.Cmd.Process.Pid))
	if got := strings.TrimSpace(string(score)); got != "321" {
		b.Errorf("oom_score_adj is %s, %v", got, err)
	}
	if code, body, err := s.Get("127.0.0.1:10249", "/debug/pprof/cmdline"); code != http.StatusOK ||
		!strings.Contains(body, "--profiling") {
		b.Errorf("/debug/pprof/cmdline returns %d %q, %v", code, body, err)
	}
}

// byNodeCIDR tests detectLocal by node CIDR: clients in the podCIDRs of the Node are local. Node ports are served only
// at the addresses of the Node.
func byNodeCIDR(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[3]
	b.ServeOn(s, "--detect-local-mode=NodeCIDR", "--cluster-cidr=", "--nodeport-addresses=primary")
	localClientsReachRemote(b, n, s)
	nodePortsAt(b, n, s, map[string]bool{
		s.Node.IPv4.String(): true, s.Node.IPv6.String(): true, gateway(s).String(): false, "127.0.0.1": false,
	})
}

// byInterface tests detectLocal by interface name prefix. Node ports are served in one of the node's address ranges.
func byInterface(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[4]
	b.ServeOn(s, "--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=pod", "--cluster-cidr=",
		"--nodeport-addresses=192.168.0.0/16,127.0.0.0/8")
	localClientsReachRemote(b, n, s)
	nodePortsAt(b, n, s, map[string]bool{
		s.Node.IPv4.String(): true, s.Node.IPv6.String(): false, gateway(s).String(): false, "127.0.0.1": true,
	})
}

// localClientsReachRemote checks that under externalTrafficPolicy Local only local clients reach endpoints of other
// nodes: this node and its pods, but not pods of other nodes at a node port. The rules decide this while the node has
// no endpoint, portald decides while it has one.
func localClientsReachRemote(b *apibed.Bed, n *cluster.Namespace, s *apibed.Site) {
	b.Helper()
	balancer := map[string]string{"d": "203.0.113.13", "e": "203.0.113.14"}[s.Name]
	shop := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: apibed.Web(),
	})
	n.SetIngress("shop", balancer)
	b.AddPods(n, "shop", "a0")
	nodePort := func(network string) string { return joinPort(s.Node, nodePortOf(shop, network)) }
	each := func(inside, outside []string) {
		b.Helper()
		for _, client := range []*topology.Host{s.Net.Pod(2), s.Node} {
			b.AnswersBoth(client, apibed.On80(balancer), inside...)
		}
		b.AnswersBoth(s.Client, apibed.On80(balancer), outside...)
		for _, network := range []string{"tcp", "udp"} {
			b.Answers(s.Net.Pod(2), network, nodePort(network), inside...)
			b.Answers(b.Pod("a1"), network, nodePort(network), outside...)
		}
	}
	each([]string{"a0"}, []string{apibed.NoReply})
	own := s.Name + "0"
	b.AddPods(n, "shop", own)
	each([]string{"a0", own}, []string{own})
}

// nodePortsAt checks at which addresses node ports are served.
func nodePortsAt(b *apibed.Bed, n *cluster.Namespace, s *apibed.Site, served map[string]bool) {
	b.Helper()
	both := corev1.IPFamilyPolicyRequireDualStack
	open := n.Service("open", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &both,
		Ports: apibed.Web()})
	b.AddPods(n, "open", "b1")
	for addr, yes := range served {
		want := apibed.Refused
		if yes {
			want = "b1"
		}
		b.Answers(s.Node, "tcp", bed.HostPort(addr, nodePortOf(open, "tcp")), want)
		if addr != "127.0.0.1" {
			b.Answers(s.Client, "udp", bed.HostPort(addr, nodePortOf(open, "udp")), want)
		}
	}
}

// gateway is the node's address on the side of its pods.
func gateway(s *apibed.Site) netip.Addr {
	v4, _ := s.Net.PodRange()
	return v4.Addr().Next()
}
