package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// internalPolicy Local leads each node's clients, and the node itself, to its own endpoints alone; where there are none,
// nobody answers. It does not say anything of node ports.
func internalPolicy(b *apiBed, n *cluster.Namespace) {
	here, there := b.sites[0], b.sites[1]
	local := corev1.ServiceInternalTrafficPolicyLocal
	s := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, InternalTrafficPolicy: &local, Ports: web()})
	b.addPods(n, "cart", "a0", "a1", "b0")
	ip := on80(s.Spec.ClusterIP)
	from := func(s *site) []*topology.Host { return []*topology.Host{s.client, s.node, s.net.Pod(2)} }
	for _, client := range from(here) {
		b.answersBoth(client, ip, "a0", "a1")
	}
	n.Remove("b0")
	for _, client := range from(there) {
		b.answersBoth(client, ip, silence)
	}
	b.answers(there.client, "tcp", at(there.node.IPv4.String(), nodePortOf(s, "tcp")), "a0", "a1")
	n.Remove("a0")
	n.Remove("a1")
	b.answersBoth(there.client, ip, refused) // there are none anywhere
	b.addPods(n, "cart", "b1")
	b.answersBoth(there.client, ip, "b1")
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = nil })
	b.answersBoth(here.client, ip, "b1")
}

// externalPolicy Local leads clients outside to this node's endpoints alone; those inside have all, at the same
// addresses.
func externalPolicy(b *apiBed, n *cluster.Namespace) {
	here, there := b.sites[0], b.sites[1]
	const balancer = "203.0.113.10"
	s := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: web(),
	})
	n.SetIngress("shop", balancer)
	b.addPods(n, "shop", "a0", "b0")
	at := func(client *topology.Host, node *site, want ...string) {
		b.Helper()
		b.answersBoth(client, on80(balancer), want...)
		for _, network := range []string{"tcp", "udp"} {
			b.answers(client, network, at(node.node.IPv4.String(), nodePortOf(s, network)), want...)
		}
	}
	inside := func(want ...string) {
		b.Helper()
		for _, s := range []*site{here, there} {
			at(s.node, s, want...)
			at(s.net.Pod(2), s, want...)
		}
		b.answers(b.pod("a2"), "tcp", joinPort(there.node, nodePortOf(s, "tcp")), want...) // a pod of the other node
	}
	at(here.client, here, "a0")
	at(there.client, there, "b0")
	inside("a0", "b0")
	b.answersBoth(here.client, on80(s.Spec.ClusterIP), "a0", "b0")
	n.Remove("b0")
	at(there.client, there, silence)
	b.answers(here.client, "tcp", joinPort(there.node, nodePortOf(s, "tcp")), silence) // by way of both nodes
	inside("a0")
	policy := func(p corev1.ServiceExternalTrafficPolicy) {
		n.ChangeService("shop", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = p })
	}
	policy(corev1.ServiceExternalTrafficPolicyCluster)
	at(there.client, there, "a0")
	policy(corev1.ServiceExternalTrafficPolicyLocal)
	at(there.client, there, silence)
	n.Remove("a0")
	at(there.client, there, refused) // there are none anywhere
	at(here.client, here, refused)
}

func joinPort(h *topology.Host, port int) string { return at(h.IPv4.String(), port) }

// healthCheckPort tells load balancers which nodes have endpoints that are ready.
func healthCheckPort(b *apiBed, n *cluster.Namespace) {
	s := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: web(),
	})
	port := int(s.Spec.HealthCheckNodePort)
	says := func(endpointsHere, endpointsThere int) {
		b.Helper()
		b.checks(b.sites[0], port, endpointsHere)
		b.checks(b.sites[1], port, endpointsThere)
	}
	says(0, 0)
	b.addPods(n, "shop", "a0", "a1", "b0")
	says(2, 1)
	n.SetReady("a1", false)
	says(1, 1)
	n.Terminate("b0") // it serves, and is not to get more
	n.Terminate("a0")
	says(0, 0)
	n.SetReady("a1", true)
	says(1, 0)
	n.ChangeService("shop", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
	b.eventually("the health check port to be closed", func() bool {
		_, _, err := fetch(b.sites[0].client, joinPort(b.sites[0].node, port), "/")
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// healthCheckPortTaken is an event while somebody else has the port, and serves when it is free.
func healthCheckPortTaken(b *apiBed, n *cluster.Namespace) {
	const port = 32555
	node := b.sites[1]
	l, err := node.node.Listen("tcp", fmt.Sprint("0.0.0.0:", port))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		HealthCheckNodePort: port, Ports: web(),
	})
	b.addPods(n, "shop", "a0", "b0")
	b.checks(b.sites[0], port, 1)
	b.event("of the port that is taken", "health-check-port-taken", func(e *eventsv1.Event) bool {
		return e.Reason == "FailedToStartServiceHealthcheck" && e.Action == "Listen" && e.Regarding.Name == "shop" && e.ReportingInstance == "b"
	})
	l.Close()
	b.checks(node, port, 1)
}

// checks waits until a load balancer that asks a node is told this number of endpoints.
func (b *apiBed) checks(s *site, port, want int) {
	b.Helper()
	status := http.StatusOK
	if want == 0 {
		status = http.StatusServiceUnavailable
	}
	body := fmt.Sprintf(`"name":"shop"},"localEndpoints":%d,"serviceProxyHealthy":true`, want)
	var code int
	var said string
	var err error
	ok := within(apiPatience, func() bool {
		code, said, err = fetch(s.client, joinPort(s.node, port), "/any/path")
		return err == nil && code == status && strings.Contains(said, body)
	})
	if !ok {
		b.Fatalf("node %s says %d %s (%v) to a load balancer, want %d %s", s.name, code, said, err, status, body)
	}
}

// sourceRanges say which clients may use a load balancer's address, by the address they really have.
func sourceRanges(b *apiBed, n *cluster.Namespace) {
	const balancer = "203.0.113.11"
	here, there := b.sites[0], b.sites[1]
	other := here.net.Client(1)
	n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: web(),
		LoadBalancerSourceRanges: []string{here.client.IPv4.String() + "/32", "10.244.1.0/24"},
	})
	n.SetIngress("shop", balancer)
	b.addPods(n, "shop", "a0", "b0")
	b.answersBoth(here.client, on80(balancer), "a0", "b0")
	b.answersBoth(there.net.Pod(2), on80(balancer), "a0", "b0")
	for _, client := range []*topology.Host{other, there.client, here.net.Pod(1)} {
		b.answers(client, "tcp", on80(balancer), reset)
		b.answers(client, "udp", on80(balancer), silence)
	}
	n.ChangeService("shop", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{other.IPv4.String() + "/32"} })
	b.answersBoth(other, on80(balancer), "a0", "b0")
	b.answers(here.client, "tcp", on80(balancer), reset)
	n.ChangeService("shop", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
	b.answersBoth(here.client, on80(balancer), "a0", "b0")
}
