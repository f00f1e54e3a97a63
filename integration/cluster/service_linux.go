package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// appKey is the label by which a Service finds its Pods.
const appKey = "app"

// Service creates a Service and returns the stored object with its addresses. A nil selector selects the Pods of the
// app with the Service's name; an empty one selects nothing, and the test creates the EndpointSlices.
func (n *Namespace) Service(name string, spec corev1.ServiceSpec) *corev1.Service {
	n.Helper()
	if spec.Selector == nil {
		spec.Selector = map[string]string{appKey: name}
	}
	s, err := n.cluster.Admin.CoreV1().Services(n.name).Create(n.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	n.must(err)
	return s
}

// ChangeService calls f to change the metadata and spec of a Service, and writes the result.
func (n *Namespace) ChangeService(name string, f func(*corev1.Service)) *corev1.Service {
	n.Helper()
	services := n.cluster.Admin.CoreV1().Services(n.name)
	var s *corev1.Service
	n.must(retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if s, err = services.Get(n.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		f(s)
		s, err = services.Update(n.Context(), s, metav1.UpdateOptions{})
		return err
	}))
	return s
}

// SetIngress sets the load balancer addresses of a Service, as a cloud provider does.
func (n *Namespace) SetIngress(name string, ips ...string) {
	n.Helper()
	services := n.cluster.Admin.CoreV1().Services(n.name)
	n.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := services.Get(n.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Status.LoadBalancer.Ingress = nil
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		_, err = services.UpdateStatus(n.Context(), s, metav1.UpdateOptions{})
		return err
	}))
}

// DeleteService deletes it; its EndpointSlices follow.
func (n *Namespace) DeleteService(name string) {
	n.Helper()
	n.must(n.cluster.Admin.CoreV1().Services(n.name).Delete(n.Context(), name, metav1.DeleteOptions{}))
}
