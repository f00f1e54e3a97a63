package api

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// serviceCIDRs runs a node in nftables mode while a range is added to those from which the cluster gives Services their
// addresses, and taken away: an address there that no Service has leads nowhere meanwhile, not to a host that has it by
// chance.
func serviceCIDRs(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[10]
	cart := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "cart", "k0")
	const inFirst, inSecond = "10.111.255.9", "10.77.1.5" // within 10.96.0.0/12, which the API server has; and later
	pod, taken := s.Net.Pod(0), cart.Spec.ClusterIP
	for _, unused := range []string{inFirst, inSecond} {
		s.On(pod, "ip", "address", "add", unused, "dev", "lo")
		s.On(s.Node, "ip", "route", "add", unused, "via", pod.IPv4.String())
	}
	there := bed.HostPort(inSecond, bed.PodPort)
	b.Answers(s.Client, "tcp", bed.HostPort(inFirst, bed.PodPort), "k0")
	b.ServeOn(s, "--proxy-mode=nftables")
	b.AnswersBoth(s.Client, apibed.On80(taken), "k0")
	b.Answers(s.Client, "tcp", there, "k0")
	b.Answers(s.Client, "tcp", bed.HostPort(inFirst, bed.PodPort), apibed.NoReply)
	b.Answers(s.Client, "tcp", bed.HostPort(taken, 81), apibed.Refused)
	ranges := b.API.Admin.NetworkingV1().ServiceCIDRs()
	_, err := ranges.Create(b.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.77.1.0/24"}},
	}, metav1.CreateOptions{})
	s.Must(err)
	b.Answers(s.Client, "tcp", there, apibed.NoReply)
	b.AnswersBoth(s.Client, apibed.On80(taken), "k0")
	s.Must(ranges.Delete(b.Context(), "more", metav1.DeleteOptions{}))
	if !bed.Within(time.Minute, func() bool { // the API server keeps it for ten seconds and more
		_, err := ranges.Get(b.Context(), "more", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}) {
		b.Fatal("the ServiceCIDR is still there")
	}
	b.Answers(s.Client, "tcp", there, "k0")
}
