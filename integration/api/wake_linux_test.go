package api

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/record"
)

// fromZero checks that clients of a Deployment without replicas, on two nodes and by TCP and UDP, wait until it is
// scaled and has a pod, and see no error; and that portald says what it lacks before it may scale.
func fromZero(b *apibed.Bed, n *cluster.Namespace) {
	const namespace, waits = "from-zero", time.Minute
	s := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	annotated(n, "cart", 81, map[string]string{"wait-for-endpoint": waits.String(), "wake": "deployment/cart=1"})
	deployment(b, namespace, "cart")
	address := bed.HostPort(s.Spec.ClusterIP, 81)
	for _, site := range b.Sites[:2] { // a datagram that comes before the annotations are in effect is lost
		b.Eventually("a client on "+site.Name+" to wait", func() bool {
			_, err := bed.AskWithin(100*time.Millisecond, site.Client, "udp", address)
			all, failed := site.D.Admin().Connections(b.Context(), adminsocket.ConnectionQuery{
				States: []string{string(record.StateWaiting)},
			})
			return err != nil && failed == nil && len(all) > 0
		})
	}

	type result struct {
		bed.Answer
		err error
	}
	results := make(chan result, 4)
	for _, site := range b.Sites[:2] {
		for _, network := range []string{"tcp", "udp"} {
			go func() {
				a, err := bed.AskWithin(waits, site.Client, network, address)
				results <- result{a, err}
			}()
		}
	}
	of := func(reason string) *eventsv1.Event {
		return event(b, reason, namespace, func(e *eventsv1.Event) bool { return e.Reason == reason })
	}
	needs := of("NeedPods")
	if needs.Type != corev1.EventTypeNormal || needs.Regarding.Kind != "Service" || needs.Regarding.Name != "cart" {
		b.Errorf("event %s", describe(needs))
	}
	failed := of("FailedToScale")
	if !strings.Contains(failed.Note, "get and update on deployments.apps/scale") ||
		!strings.Contains(failed.Note, "deploy/kustomize/wake") {
		b.Errorf("event %s", describe(failed))
	}

	mayScale(b, namespace, cluster.Proxy)
	b.Eventually("the Deployment to be scaled", func() bool { return deployed(b, namespace, "cart").replicas == 1 })
	of("ScaledFromZero")
	b.AddPods(n, "cart", "a0")
	for range cap(results) {
		if r := <-results; r.err != nil || r.Pod != "a0" {
			b.Errorf("a client that waited is answered by %q, %v", r.Pod, r.err)
		}
	}
	if d := deployed(b, namespace, "cart"); d.changes != 2 {
		b.Errorf("the Deployment was changed %d times", d.changes-1)
	}
}

// deployment creates one without replicas.
func deployment(b *apibed.Bed, namespace, name string) {
	b.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}},
	}}
	_, err := b.API.Admin.AppsV1().Deployments(namespace).Create(b.Context(), d, metav1.CreateOptions{})
	b.Sites[0].Must(err)
}

// workload is the state of a Deployment.
type workload struct {
	replicas int32
	changes  int64 // of its spec, from 1
}

func deployed(b *apibed.Bed, namespace, name string) workload {
	b.Helper()
	d, err := b.API.Admin.AppsV1().Deployments(namespace).Get(b.Context(), name, metav1.GetOptions{})
	b.Sites[0].Must(err)
	return workload{*d.Spec.Replicas, d.Generation}
}

// mayScale gives a user the rules of deploy/kustomize/wake in one namespace.
func mayScale(b *apibed.Bed, namespace, user string) {
	b.Helper()
	rbac, name := b.API.Admin.RbacV1(), metav1.ObjectMeta{Name: "wake"}
	_, err := rbac.Roles(namespace).Create(b.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"apps"}, Verbs: []string{"get", "update"},
		Resources: []string{"deployments/scale", "statefulsets/scale", "replicasets/scale"},
	}}}, metav1.CreateOptions{})
	b.Sites[0].Must(err)
	_, err = rbac.RoleBindings(namespace).Create(b.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	b.Sites[0].Must(err)
}
