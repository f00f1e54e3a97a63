package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// internalPolicy tests internalTrafficPolicy Local: clients of each node, and the node itself, reach only endpoints on
// that node. Without one their packets are dropped. Node ports are not affected.
func internalPolicy(b *apibed.Bed, n *cluster.Namespace) {
	here, there := b.Sites[0], b.Sites[1]
	local := corev1.ServiceInternalTrafficPolicyLocal
	s := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, InternalTrafficPolicy: &local,
		Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0", "a1", "b0")
	ip := apibed.On80(s.Spec.ClusterIP)
	from := func(s *apibed.Site) []*topology.Host { return []*topology.Host{s.Client, s.Node, s.Net.Pod(2)} }
	for _, client := range from(here) {
		b.AnswersBoth(client, ip, "a0", "a1")
	}
	n.Remove("b0")
	for _, client := range from(there) {
		b.AnswersBoth(client, ip, apibed.NoReply)
	}
	b.Answers(there.Client, "tcp", bed.HostPort(there.Node.IPv4.String(), nodePortOf(s, "tcp")), "a0", "a1")
	n.Remove("a0")
	n.Remove("a1")
	b.AnswersBoth(there.Client, ip, apibed.Refused) // no endpoint on any node
	b.AddPods(n, "cart", "b1")
	b.AnswersBoth(there.Client, ip, "b1")
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = nil })
	b.AnswersBoth(here.Client, ip, "b1")
}

// externalPolicy tests externalTrafficPolicy Local: external clients reach only endpoints on this node, local clients
// reach all endpoints at the same addresses.
func externalPolicy(b *apibed.Bed, n *cluster.Namespace) {
	here, there := b.Sites[0], b.Sites[1]
	const balancer = "203.0.113.10"
	s := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: apibed.Web(),
	})
	n.SetIngress("shop", balancer)
	b.AddPods(n, "shop", "a0", "b0")
	at := func(client *topology.Host, node *apibed.Site, want ...string) {
		b.Helper()
		b.AnswersBoth(client, apibed.On80(balancer), want...)
		for _, network := range []string{"tcp", "udp"} {
			b.Answers(client, network, bed.HostPort(node.Node.IPv4.String(), nodePortOf(s, network)), want...)
		}
	}
	inside := func(want ...string) {
		b.Helper()
		for _, s := range []*apibed.Site{here, there} {
			at(s.Node, s, want...)
			at(s.Net.Pod(2), s, want...)
		}
		b.Answers(b.Pod("a2"), "tcp", joinPort(there.Node, nodePortOf(s, "tcp")), want...) // a pod of the other node
	}
	at(here.Client, here, "a0")
	at(there.Client, there, "b0")
	inside("a0", "b0")
	b.AnswersBoth(here.Client, apibed.On80(s.Spec.ClusterIP), "a0", "b0")
	n.Remove("b0")
	at(there.Client, there, apibed.NoReply)
	b.Answers(here.Client, "tcp", joinPort(there.Node, nodePortOf(s, "tcp")), apibed.NoReply) // via both nodes
	inside("a0")
	policy := func(p corev1.ServiceExternalTrafficPolicy) {
		n.ChangeService("shop", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = p })
	}
	policy(corev1.ServiceExternalTrafficPolicyCluster)
	at(there.Client, there, "a0")
	policy(corev1.ServiceExternalTrafficPolicyLocal)
	at(there.Client, there, apibed.NoReply)
	n.Remove("a0")
	at(there.Client, there, apibed.Refused) // no endpoint on any node
	at(here.Client, here, apibed.Refused)
}

func joinPort(h *topology.Host, port int) string { return bed.HostPort(h.IPv4.String(), port) }

// healthCheckPort checks that the health check port reports the number of ready endpoints on each node.
func healthCheckPort(b *apibed.Bed, n *cluster.Namespace) {
	s := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: apibed.Web(),
	})
	port := int(s.Spec.HealthCheckNodePort)
	says := func(endpointsHere, endpointsThere int) {
		b.Helper()
		checks(b, b.Sites[0], port, endpointsHere)
		checks(b, b.Sites[1], port, endpointsThere)
	}
	says(0, 0)
	b.AddPods(n, "shop", "a0", "a1", "b0")
	says(2, 1)
	n.SetReady("a1", false)
	says(1, 1)
	n.Terminate("b0") // still serving, but no longer counted
	n.Terminate("a0")
	says(0, 0)
	n.SetReady("a1", true)
	says(1, 0)
	n.ChangeService("shop", func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	})
	b.Eventually("the health check port to be closed", func() bool {
		_, _, err := bed.Fetch(b.Sites[0].Client, joinPort(b.Sites[0].Node, port), "/")
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// healthCheckPortTaken checks that a health check port in use creates an event, and is served once it is free.
func healthCheckPortTaken(b *apibed.Bed, n *cluster.Namespace) {
	const port = 30055 // of the first 86, of which the API server takes none by itself while others are free
	node := b.Sites[1]
	l, err := node.Node.Listen("tcp", fmt.Sprint("0.0.0.0:", port))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		HealthCheckNodePort: port, Ports: apibed.Web(),
	})
	b.AddPods(n, "shop", "a0", "b0")
	checks(b, b.Sites[0], port, 1)
	event(b, "of the port that is taken", "health-check-port-taken", func(e *eventsv1.Event) bool {
		return e.Reason == "FailedToStartServiceHealthcheck" && e.Action == "Listen" && e.Regarding.Name == "shop" &&
			e.ReportingInstance == "b"
	})
	l.Close()
	checks(b, node, port, 1)
}

// checks waits until a node's health check port reports this number of endpoints.
func checks(b *apibed.Bed, s *apibed.Site, port, want int) {
	b.Helper()
	status := http.StatusOK
	if want == 0 {
		status = http.StatusServiceUnavailable
	}
	body := fmt.Sprintf(`"name":"shop"},"localEndpoints":%d,"serviceProxyHealthy":true`, want)
	var code int
	var said string
	var err error
	ok := bed.Within(apibed.ChangeTimeout, func() bool {
		code, said, err = bed.Fetch(s.Client, joinPort(s.Node, port), "/any/path")
		return err == nil && code == status && strings.Contains(said, body)
	})
	if !ok {
		b.Fatalf("health check port of node %s returns %d %s (%v), want %d %s", s.Name, code, said, err, status, body)
	}
}

// sourceRanges checks that loadBalancerSourceRanges apply to the client's original address.
func sourceRanges(b *apibed.Bed, n *cluster.Namespace) {
	const balancer = "203.0.113.11"
	here, there := b.Sites[0], b.Sites[1]
	other := here.Net.Client(1)
	n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: apibed.Web(),
		LoadBalancerSourceRanges: []string{here.Client.IPv4.String() + "/32", "10.244.1.0/24"},
	})
	n.SetIngress("shop", balancer)
	b.AddPods(n, "shop", "a0", "b0")
	b.AnswersBoth(here.Client, apibed.On80(balancer), "a0", "b0")
	b.AnswersBoth(there.Net.Pod(2), apibed.On80(balancer), "a0", "b0")
	for _, client := range []*topology.Host{other, there.Client, here.Net.Pod(1)} {
		b.Answers(client, "tcp", apibed.On80(balancer), apibed.Reset)
		b.Answers(client, "udp", apibed.On80(balancer), apibed.NoReply)
	}
	n.ChangeService("shop", func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{other.IPv4.String() + "/32"}
	})
	b.AnswersBoth(other, apibed.On80(balancer), "a0", "b0")
	b.Answers(here.Client, "tcp", apibed.On80(balancer), apibed.Reset)
	n.ChangeService("shop", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
	b.AnswersBoth(here.Client, apibed.On80(balancer), "a0", "b0")
}
