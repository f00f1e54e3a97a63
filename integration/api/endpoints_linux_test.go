package api

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// topologyHints checks that clients get endpoints hinted for their zone or node as long as there are any. A third node
// changes its zone at run time.
func topologyHints(b *apibed.Bed, n *cluster.Namespace) {
	here, there, third := b.Sites[0], b.Sites[1], b.Sites[2]
	b.ServeOn(third)
	s := n.Service("cart", corev1.ServiceSpec{TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferSameZone),
		Ports: apibed.Web()})
	ip := apibed.On80(s.Spec.ClusterIP)
	b.AddPods(n, "cart", "a0", "a1", "b0")
	b.AnswersBoth(here.Client, ip, "a0", "a1")
	b.AnswersBoth(there.Net.Pod(2), ip, "b0")
	b.AnswersBoth(third.Client, ip, "a0", "a1", "b0") // no endpoint is hinted for its zone
	n.SetReady("b0", false)
	b.AnswersBoth(there.Client, ip, "a0", "a1")
	n.SetReady("b0", true)

	n.Kubectl("", "label", "--overwrite", "node", "c", corev1.LabelTopologyZone+"=zone-a")
	b.AnswersBoth(third.Client, ip, "a0", "a1")
	b.AddPods(n, "cart", "c0")
	b.AnswersBoth(here.Client, ip, "a0", "a1", "c0")

	n.ChangeService("cart", func(s *corev1.Service) {
		s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	b.AnswersBoth(here.Node, ip, "a0", "a1")
	b.AnswersBoth(third.Client, ip, "c0")
	n.Remove("c0")
	b.AnswersBoth(third.Client, ip, "a0", "a1") // endpoints for its new zone
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.TrafficDistribution = nil })
	b.AnswersBoth(here.Client, ip, "a0", "a1", "b0")
}

// terminating checks that terminating endpoints get connections while they serve and no other endpoint is ready: in the
// cluster, or on the node under a Local policy.
func terminating(b *apibed.Bed, n *cluster.Namespace) {
	here, there := b.Sites[0], b.Sites[1]
	const balancer = "203.0.113.12"
	s := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: apibed.Web(),
	})
	n.SetIngress("shop", balancer)
	b.AddPods(n, "shop", "a0", "a1", "b0")
	cluster, local := apibed.On80(s.Spec.ClusterIP), apibed.On80(balancer)
	n.Terminate("a0")
	b.AnswersBoth(here.Client, cluster, "a1", "b0")
	b.AnswersBoth(here.Client, local, "a1")
	n.Terminate("a1")
	b.AnswersBoth(here.Client, cluster, "b0")
	b.AnswersBoth(here.Client, local, "a0", "a1")
	b.AnswersBoth(here.Node, local, "b0") // a client inside the cluster
	n.SetReady("b0", false)
	b.AnswersBoth(there.Client, cluster, "a0", "a1")
	b.AnswersBoth(there.Client, local, apibed.NoReply)
	n.SetReady("a1", false)
	b.AnswersBoth(here.Client, cluster, "a0")
	b.AnswersBoth(here.Client, local, "a0")
	n.SetReady("a0", false)
	b.AnswersBoth(here.Client, cluster, apibed.Refused)
	b.AnswersBoth(here.Client, local, apibed.Refused)
}

// notReady tests publishNotReadyAddresses, first true and then false.
func notReady(b *apibed.Bed, n *cluster.Namespace) {
	s := n.Service("cart", corev1.ServiceSpec{PublishNotReadyAddresses: true, Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0", "b0")
	n.SetReady("a0", false)
	n.SetReady("b0", false)
	n.WaitEndpoints("cart", b.Pod("a0").IPv4.String()+" ready", b.Pod("b0").IPv4.String()+" ready")
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(s.Spec.ClusterIP), "a0", "b0")
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = false })
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(s.Spec.ClusterIP), apibed.Refused)
}

// affinityChanges changes the session affinity of a Service while clients have affinity entries.
func affinityChanges(b *apibed.Bed, n *cluster.Namespace) {
	client := b.Sites[0].Client
	s := n.Service("cart", corev1.ServiceSpec{SessionAffinity: corev1.ServiceAffinityClientIP, Ports: apibed.Web()})
	ip := apibed.On80(s.Spec.ClusterIP)
	b.AddPods(n, "cart", "a0", "a1", "b0")
	becomesBound(b, client, ip)
	seconds := func(n int32) *corev1.SessionAffinityConfig {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &n}}
	}
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.SessionAffinityConfig = seconds(1) })
	first := apibed.Outcome(apibed.AnswerTimeout, client, "tcp", ip)
	b.Eventually("a client that was idle for longer than a second to get a new endpoint", func() bool {
		time.Sleep(1100 * time.Millisecond)
		return apibed.Outcome(apibed.AnswerTimeout, client, "tcp", ip) != first
	})
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.SessionAffinityConfig = seconds(86400) })
	becomesBound(b, client, ip)
	n.ChangeService("cart", func(s *corev1.Service) {
		s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
	})
	b.AnswersBoth(client, ip, "a0", "a1", "b0")
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	becomesBound(b, client, ip)
}

// becomesBound waits until one pod answers all requests of a client, for each protocol.
func becomesBound(b *apibed.Bed, client *topology.Host, address string) {
	b.Helper()
	for _, network := range []string{"tcp", "udp"} {
		b.Eventually("a client to have affinity to one pod", func() bool {
			pods := map[string]bool{}
			for range 6 {
				pods[apibed.Outcome(apibed.AnswerTimeout, client, network, address)] = true
			}
			return len(pods) == 1 && !pods[apibed.Refused] && !pods[apibed.NoReply]
		})
	}
}
