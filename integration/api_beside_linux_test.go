package integration

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/cluster"
)

// others are the chains of a portald for a proxy name.
var others = regexp.MustCompile(`PORTALD-[0-9A-F]{6}-`)

// proxyName has two portalds on one node, each for Services of its own.
func proxyName(b *apiBed, n *cluster.Namespace) {
	s := b.sites[6]
	b.serveOn(s)
	plain := n.Service("plain", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: web()})
	labelled := n.Service("labelled", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: web()})
	n.Kubectl("", "label", "service", "labelled", "service.kubernetes.io/service-proxy-name=other")
	b.addPods(n, "plain", "a0")
	b.addPods(n, "labelled", "g0")
	answers := func(s *corev1.Service, pod string) {
		b.Helper()
		for _, client := range b.sites[6].hosts() {
			b.answersBoth(client, on80(s.Spec.ClusterIP), pod)
			b.answers(client, "tcp", joinPort(b.sites[6].node, nodePortOf(s, "tcp")), pod)
		}
	}
	answers(plain, "a0")
	b.answers(s.client, "tcp", on80(labelled.Spec.ClusterIP), silence)

	other := *s.bed
	other.dir = b.TempDir()
	d := other.launch(nil, b.flags(s, "--service-proxy-name=other", "--on-exit=remove",
		"--healthz-bind-address=127.0.0.1:20256", "--metrics-bind-address=127.0.0.1:20249")...)
	answers(labelled, "g0")
	answers(plain, "a0")
	n.Remove("a0") // each follows its own changes
	answers(plain, refused)
	b.addPods(n, "plain", "a1")
	answers(plain, "a1")
	answers(labelled, "g0")
	n.Kubectl("", "label", "service", "labelled", "service.kubernetes.io/service-proxy-name-")
	answers(labelled, "g0") // by the first, now
	n.Kubectl("", "label", "service", "labelled", "service.kubernetes.io/service-proxy-name=other")
	answers(labelled, "g0")
	if rules := s.rules(); !others.MatchString(rules) {
		b.Errorf("it has no chains of its own:\n%s", rules)
	}
	if code := d.stop(); code != 0 {
		b.Errorf("it ended with code %d", code)
	}
	if rules := s.rules(); others.MatchString(rules) {
		b.Errorf("it has left rules behind:\n%s", rules)
	}
	answers(plain, "a1")
}
