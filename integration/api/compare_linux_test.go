package api

import (
	"os"
	"path/filepath"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// compared asks `portald config check` which Services of the API server would be served otherwise: as an administrator,
// and as kube-proxy, which may not read NetworkPolicies.
func compared(b *apibed.Bed) {
	s, o := b.Sites[0], newObjects(b, "compared")
	o.service("cart", bed.PodPort, s.Net.Pod(0).IPv4)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clients"}}
	policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	policy.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: s.Net.Pod(0).IPv4.String() + "/32"}},
	}}}
	_, err := b.API.Admin.NetworkingV1().NetworkPolicies(o.namespace).Create(b.Context(), policy, metav1.CreateOptions{})
	s.Must(err)
	file := filepath.Join(b.TempDir(), "config.yaml")
	const text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	s.Must(os.WriteFile(file, []byte(text), 0o644))

	check := []string{"config", "check", file, "--kubeconfig"}
	for user, want := range map[string]string{
		"admin":       "networkpolicy compared/clients spec.egress ",
		cluster.Proxy: "not compared: networkpolicies: ",
	} {
		out := s.On(s.Node, bed.Portald, append(check, b.API.Kubeconfig(user))...)
		for _, want := range []string{want, "mode: is empty, which is userspace here"} {
			if !strings.Contains(out, want) {
				b.Errorf("%s: %q is missing in:\n%s", user, want, out)
			}
		}
	}
	if _, err = s.Try(s.Node, bed.Portald, append(check, b.API.Kubeconfig("admin"), "--manifests=x")...); err == nil {
		b.Error("two clusters at once are not refused")
	}
}
