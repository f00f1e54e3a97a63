package windows

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
)

// With an API server: a Service and its pods come and go, portald.exe is killed and started again, and all that while
// its clients are served.
func TestAPIServer(t *testing.T) {
	b := apibed.New(t, 1, 3)
	site := b.Sites[0]
	d := b.ServeOn(site)
	n := b.API.Namespace(t, "shop")
	svc := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0", "a1")
	vip := apibed.On80(svc.Spec.ClusterIP)
	b.AnswersBoth(site.Client, vip, "a0", "a1")
	b.AnswersBoth(site.Client, bed.HostPort(site.Node.IPv4.String(), int(svc.Spec.Ports[0].NodePort)), "a0", "a1")

	stop := site.Load(vip)
	b.AddPods(n, "cart", "a2")
	n.Terminate("a0")
	b.Answers(site.Client, "tcp", vip, "a1", "a2")
	if count, failed := stop(); len(failed) > 0 {
		t.Errorf("a rollout: answers %v, %d failures: %v", count, len(failed), failed)
	}

	kill(d)
	n.Remove("a1")
	b.ServeOn(site)
	b.AnswersBoth(site.Client, vip, "a2")
	n.DeleteService("cart")
	b.Eventually("the address to go", func() bool { return len(addresses(site.Bed)) == 2 }) // kubernetes and kube-dns
	b.Answers(site.Client, "tcp", vip, apibed.NoReply)
}
