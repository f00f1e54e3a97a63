package api

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// byHand creates, changes and deletes a Service as a user of kubectl does.
func byHand(b *apibed.Bed, n *cluster.Namespace) {
	n.Kubectl("", "create", "service", "clusterip", "cart", "--tcp=80:8080")
	ip := apibed.On80(n.Kubectl("", "get", "service", "cart", "-o", "jsonpath={.spec.clusterIP}"))
	each := func(want ...string) {
		b.Helper()
		for _, s := range b.Sites[:2] {
			b.Answers(s.Client, "tcp", ip, want...)
			b.Answers(s.Node, "tcp", ip, want...)
			b.Answers(s.Net.Pod(0), "tcp", ip, want...)
		}
	}
	each(apibed.Refused)
	b.AddPods(n, "cart", "a0", "b0")
	each("a0", "b0")
	b.AddPods(n, "cart", "b1")
	each("a0", "b0", "b1")
	n.Kubectl("", "delete", "pod", "a0", "b1", "--force", "--grace-period=0")
	each("b0")
	n.Kubectl("", "patch", "service", "cart", "--type=json", "--patch",
		`[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]`)
	b.Answers(b.Sites[1].Node, "tcp", ip, apibed.NoReply)
	ip = ip[:len(ip)-1] + "1"
	each("b0")
	n.Kubectl("", "delete", "service", "cart")
	b.Answers(b.Sites[0].Client, "tcp", ip, apibed.NoReply)
}

// namedPorts tests a named target port with a different number in each pod.
func namedPorts(b *apibed.Bed, n *cluster.Namespace) {
	const other = 8081
	b.Sites[1].Serve(b.Pod("b1"), other, bed.NamesItself("b1 at the other port"))
	n.Pod("first", "cart", "a", b.Pod("a1"), corev1.ContainerPort{Name: "web", ContainerPort: bed.PodPort})
	n.Pod("second", "cart", "b", b.Pod("b1"), corev1.ContainerPort{Name: "web", ContainerPort: other})
	s := n.Service("cart", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80,
		TargetPort: intstr.FromString("web")}}})
	b.Answers(b.Sites[0].Client, "tcp", apibed.On80(s.Spec.ClusterIP), "a1", "b1 at the other port")
}

// bothFamilies tests a dual-stack Service and an IPv6 Service.
func bothFamilies(b *apibed.Bed, n *cluster.Namespace) {
	both := corev1.IPFamilyPolicyRequireDualStack
	dual := n.Service("dual", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &both,
		Ports: apibed.Web()})
	b.AddPods(n, "dual", "a0", "b0")
	for _, s := range b.Sites[:2] {
		for _, ip := range dual.Spec.ClusterIPs {
			b.AnswersBoth(s.Client, apibed.On80(ip), "a0", "b0")
			b.AnswersBoth(s.Node, apibed.On80(ip), "a0", "b0")
			b.AnswersBoth(s.Net.Pod(1), apibed.On80(ip), "a0", "b0")
		}
		for _, ip := range []string{s.Node.IPv4.String(), s.Node.IPv6.String()} {
			b.Answers(s.Client, "tcp", bed.HostPort(ip, nodePortOf(dual, "tcp")), "a0", "b0")
			b.Answers(s.Client, "udp", bed.HostPort(ip, nodePortOf(dual, "udp")), "a0", "b0")
		}
	}
	six := n.Service("six", corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}, Ports: apibed.Web()})
	b.AddPods(n, "six", "b2")
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(six.Spec.ClusterIP), "b2")
}

// nodePortOf is the node port of a Service with the ports of apibed.Web.
func nodePortOf(s *corev1.Service, network string) int {
	if network == "tcp" {
		return int(s.Spec.Ports[0].NodePort)
	}
	return int(s.Spec.Ports[1].NodePort)
}

// labels checks that Services labelled for another proxy are ignored.
func labels(b *apibed.Bed, n *cluster.Namespace) {
	s := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0")
	for _, label := range []string{"service.kubernetes.io/service-proxy-name=other", "service.kubernetes.io/headless="} {
		b.AnswersBoth(b.Sites[1].Client, apibed.On80(s.Spec.ClusterIP), "a0")
		n.Kubectl("", "label", "service", "cart", label)
		b.Answers(b.Sites[1].Client, "tcp", apibed.On80(s.Spec.ClusterIP), apibed.NoReply)
		name, _, _ := bed.CutLast(label, "=")
		n.Kubectl("", "label", "service", "cart", name+"-")
	}
	b.AnswersBoth(b.Sites[1].Client, apibed.On80(s.Spec.ClusterIP), "a0")
}

// apiServer checks that pods and nodes reach the API server through the Service kubernetes.
func apiServer(b *apibed.Bed, n *cluster.Namespace) {
	ca, err := os.ReadFile(b.API.CA)
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	address := bed.HostPort(n.Kubectl("", "get", "--namespace=default", "service", "kubernetes", "-o",
		"jsonpath={.spec.clusterIP}"), 443)
	for _, s := range b.Sites[:2] {
		c, err := bed.Dial(apibed.ChangeTimeout, s.Net.Pod(0), "tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		if err := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "kubernetes.default.svc"}).Handshake(); err != nil {
			b.Errorf("from a pod of node %s: %v", s.Name, err)
		}
	}
}
