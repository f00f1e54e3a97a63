package integration

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// topologyHints keep clients to endpoints of their zone, or of their node, as long as it has any. A third node changes its
// zone while it is served.
func topologyHints(b *apiBed, n *cluster.Namespace) {
	here, there, third := b.sites[0], b.sites[1], b.sites[2]
	b.serveOn(third)
	s := n.Service("cart", corev1.ServiceSpec{TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferSameZone), Ports: web()})
	ip := on80(s.Spec.ClusterIP)
	b.addPods(n, "cart", "a0", "a1", "b0")
	b.answersBoth(here.client, ip, "a0", "a1")
	b.answersBoth(there.net.Pod(2), ip, "b0")
	b.answersBoth(third.client, ip, "a0", "a1", "b0") // its zone has none
	n.SetReady("b0", false)
	b.answersBoth(there.client, ip, "a0", "a1")
	n.SetReady("b0", true)

	n.Kubectl("", "label", "--overwrite", "node", "c", corev1.LabelTopologyZone+"=zone-a")
	b.answersBoth(third.client, ip, "a0", "a1")
	b.addPods(n, "cart", "c0")
	b.answersBoth(here.client, ip, "a0", "a1", "c0")

	n.ChangeService("cart", func(s *corev1.Service) {
		s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	b.answersBoth(here.node, ip, "a0", "a1")
	b.answersBoth(third.client, ip, "c0")
	n.Remove("c0")
	b.answersBoth(third.client, ip, "a0", "a1") // those of its zone come next
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.TrafficDistribution = nil })
	b.answersBoth(here.client, ip, "a0", "a1", "b0")
}

// terminating endpoints are asked while they serve and there are no others: in the cluster, or on the node where a Local
// policy binds clients to it.
func terminating(b *apiBed, n *cluster.Namespace) {
	here, there := b.sites[0], b.sites[1]
	const balancer = "203.0.113.12"
	s := n.Service("shop", corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: web(),
	})
	n.SetIngress("shop", balancer)
	b.addPods(n, "shop", "a0", "a1", "b0")
	cluster, local := on80(s.Spec.ClusterIP), on80(balancer)
	n.Terminate("a0")
	b.answersBoth(here.client, cluster, "a1", "b0")
	b.answersBoth(here.client, local, "a1")
	n.Terminate("a1")
	b.answersBoth(here.client, cluster, "b0")
	b.answersBoth(here.client, local, "a0", "a1")
	b.answersBoth(here.node, local, "b0") // from inside
	n.SetReady("b0", false)
	b.answersBoth(there.client, cluster, "a0", "a1")
	b.answersBoth(there.client, local, silence)
	n.SetReady("a1", false)
	b.answersBoth(here.client, cluster, "a0")
	b.answersBoth(here.client, local, "a0")
	n.SetReady("a0", false)
	b.answersBoth(here.client, cluster, refused)
	b.answersBoth(here.client, local, refused)
}

// notReady has a Service that publishes addresses before they are ready, and then does not.
func notReady(b *apiBed, n *cluster.Namespace) {
	s := n.Service("cart", corev1.ServiceSpec{PublishNotReadyAddresses: true, Ports: web()})
	b.addPods(n, "cart", "a0", "b0")
	n.SetReady("a0", false)
	n.SetReady("b0", false)
	n.WaitEndpoints("cart", b.pod("a0").IPv4.String()+" ready", b.pod("b0").IPv4.String()+" ready")
	b.answersBoth(b.sites[0].client, on80(s.Spec.ClusterIP), "a0", "b0")
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = false })
	b.answersBoth(b.sites[0].client, on80(s.Spec.ClusterIP), refused)
}

// affinityChanges are followed while clients are bound.
func affinityChanges(b *apiBed, n *cluster.Namespace) {
	client := b.sites[0].client
	s := n.Service("cart", corev1.ServiceSpec{SessionAffinity: corev1.ServiceAffinityClientIP, Ports: web()})
	ip := on80(s.Spec.ClusterIP)
	b.addPods(n, "cart", "a0", "a1", "b0")
	b.becomesBound(client, ip)
	seconds := func(n int32) *corev1.SessionAffinityConfig {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &n}}
	}
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.SessionAffinityConfig = seconds(1) })
	first := meets(apiAnswer, client, "tcp", ip)
	b.eventually("a client that was silent for longer than a second to be bound anew", func() bool {
		time.Sleep(1100 * time.Millisecond)
		return meets(apiAnswer, client, "tcp", ip) != first
	})
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.SessionAffinityConfig = seconds(86400) })
	b.becomesBound(client, ip)
	n.ChangeService("cart", func(s *corev1.Service) {
		s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
	})
	b.answersBoth(client, ip, "a0", "a1", "b0")
	n.ChangeService("cart", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	b.becomesBound(client, ip)
}

// becomesBound waits until a client meets one pod alone, by each protocol.
func (b *apiBed) becomesBound(client *topology.Host, address string) {
	b.Helper()
	for _, network := range []string{"tcp", "udp"} {
		b.eventually("a client to be bound", func() bool {
			pods := map[string]bool{}
			for range 6 {
				pods[meets(apiAnswer, client, network, address)] = true
			}
			return len(pods) == 1 && !pods[refused] && !pods[silence]
		})
	}
}
