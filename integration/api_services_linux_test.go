package integration

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/cluster"
)

// byHand is a Service's life as kubectl's user makes it.
func byHand(b *apiBed, n *cluster.Namespace) {
	n.Kubectl("", "create", "service", "clusterip", "cart", "--tcp=80:8080")
	ip := on80(n.Kubectl("", "get", "service", "cart", "-o", "jsonpath={.spec.clusterIP}"))
	each := func(want ...string) {
		b.Helper()
		for _, s := range b.sites[:2] {
			b.answers(s.client, "tcp", ip, want...)
			b.answers(s.node, "tcp", ip, want...)
			b.answers(s.net.Pod(0), "tcp", ip, want...)
		}
	}
	each(refused)
	b.addPods(n, "cart", "a0", "b0")
	each("a0", "b0")
	b.addPods(n, "cart", "b1")
	each("a0", "b0", "b1")
	n.Kubectl("", "delete", "pod", "a0", "b1", "--force", "--grace-period=0")
	each("b0")
	n.Kubectl("", "patch", "service", "cart", "--type=json", "--patch", `[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]`)
	b.answers(b.sites[1].node, "tcp", ip, silence)
	ip = ip[:len(ip)-1] + "1"
	each("b0")
	n.Kubectl("", "delete", "service", "cart")
	b.answers(b.sites[0].client, "tcp", ip, silence)
}

// namedPorts lead to another number in each pod.
func namedPorts(b *apiBed, n *cluster.Namespace) {
	const other = 8081
	b.sites[1].serve(b.pod("b1"), other, namesItself("b1 at the other port"))
	n.Pod("first", "cart", "a", b.pod("a1"), corev1.ContainerPort{Name: "web", ContainerPort: podPort})
	n.Pod("second", "cart", "b", b.pod("b1"), corev1.ContainerPort{Name: "web", ContainerPort: other})
	s := n.Service("cart", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("web")}}})
	b.answers(b.sites[0].client, "tcp", on80(s.Spec.ClusterIP), "a1", "b1 at the other port")
}

// bothFamilies has a Service of two families, and then one of IPv6 alone.
func bothFamilies(b *apiBed, n *cluster.Namespace) {
	both := corev1.IPFamilyPolicyRequireDualStack
	dual := n.Service("dual", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &both, Ports: web()})
	b.addPods(n, "dual", "a0", "b0")
	for _, s := range b.sites[:2] {
		for _, ip := range dual.Spec.ClusterIPs {
			b.answersBoth(s.client, on80(ip), "a0", "b0")
			b.answersBoth(s.node, on80(ip), "a0", "b0")
			b.answersBoth(s.net.Pod(1), on80(ip), "a0", "b0")
		}
		for _, ip := range []string{s.node.IPv4.String(), s.node.IPv6.String()} {
			b.answers(s.client, "tcp", at(ip, nodePortOf(dual, "tcp")), "a0", "b0")
			b.answers(s.client, "udp", at(ip, nodePortOf(dual, "udp")), "a0", "b0")
		}
	}
	six := n.Service("six", corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}, Ports: web()})
	b.addPods(n, "six", "b2")
	b.answersBoth(b.sites[0].client, on80(six.Spec.ClusterIP), "b2")
}

// nodePortOf is the node port of a Service of web's ports.
func nodePortOf(s *corev1.Service, network string) int {
	if network == "tcp" {
		return int(s.Spec.Ports[0].NodePort)
	}
	return int(s.Spec.Ports[1].NodePort)
}

// labels say that a Service is not this proxy's.
func labels(b *apiBed, n *cluster.Namespace) {
	s := n.Service("cart", corev1.ServiceSpec{Ports: web()})
	b.addPods(n, "cart", "a0")
	for _, label := range []string{"service.kubernetes.io/service-proxy-name=other", "service.kubernetes.io/headless="} {
		b.answersBoth(b.sites[1].client, on80(s.Spec.ClusterIP), "a0")
		n.Kubectl("", "label", "service", "cart", label)
		b.answers(b.sites[1].client, "tcp", on80(s.Spec.ClusterIP), silence)
		name, _, _ := cutLast(label, "=")
		n.Kubectl("", "label", "service", "cart", name+"-")
	}
	b.answersBoth(b.sites[1].client, on80(s.Spec.ClusterIP), "a0")
}

// apiServer is itself behind a Service, which pods and nodes reach it by.
func apiServer(b *apiBed, n *cluster.Namespace) {
	ca, err := os.ReadFile(b.api.CA)
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	address := at(n.Kubectl("", "get", "--namespace=default", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"), 443)
	for _, s := range b.sites[:2] {
		c, err := dial(apiPatience, s.net.Pod(0), "tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		if err := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "kubernetes.default.svc"}).Handshake(); err != nil {
			b.Errorf("from a pod of node %s: %v", s.name, err)
		}
	}
}
