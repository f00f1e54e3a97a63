package api

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/cluster"
)

// others matches the chains of a portald with a proxy name.
var others = regexp.MustCompile(`PORTALD-[0-9A-F]{6}-`)

// proxyName runs two portalds on one node, each for the Services with its proxy name.
func proxyName(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[6]
	b.ServeOn(s)
	plain := n.Service("plain", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: apibed.Web()})
	labelled := n.Service("labelled", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: apibed.Web()})
	n.Kubectl("", "label", "service", "labelled", "service.kubernetes.io/service-proxy-name=other")
	b.AddPods(n, "plain", "a0")
	b.AddPods(n, "labelled", "g0")
	answers := func(s *corev1.Service, pod string) {
		b.Helper()
		for _, client := range b.Sites[6].Hosts() {
			b.AnswersBoth(client, apibed.On80(s.Spec.ClusterIP), pod)
			b.Answers(client, "tcp", joinPort(b.Sites[6].Node, nodePortOf(s, "tcp")), pod)
		}
	}
	answers(plain, "a0")
	b.Answers(s.Client, "tcp", apibed.On80(labelled.Spec.ClusterIP), apibed.NoReply)

	other := *s.Bed
	other.Dir = b.TempDir()
	d := other.Launch(nil, b.Flags(s, "--service-proxy-name=other", "--on-exit=remove",
		"--healthz-bind-address=127.0.0.1:20256", "--metrics-bind-address=127.0.0.1:20249")...)
	answers(labelled, "g0")
	answers(plain, "a0")
	n.Remove("a0") // each applies the changes of its own Services
	answers(plain, apibed.Refused)
	b.AddPods(n, "plain", "a1")
	answers(plain, "a1")
	answers(labelled, "g0")
	n.Kubectl("", "label", "service", "labelled", "service.kubernetes.io/service-proxy-name-")
	answers(labelled, "g0") // by the first, now
	n.Kubectl("", "label", "service", "labelled", "service.kubernetes.io/service-proxy-name=other")
	answers(labelled, "g0")
	if rules := s.Rules(); !others.MatchString(rules) {
		b.Errorf("the second portald has no separate chains:\n%s", rules)
	}
	if code := d.Stop(); code != 0 {
		b.Errorf("the second portald ended with code %d", code)
	}
	if rules := s.Rules(); others.MatchString(rules) {
		b.Errorf("the second portald left rules behind:\n%s", rules)
	}
	answers(plain, "a1")
}
