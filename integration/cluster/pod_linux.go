package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/portald/portald/integration/topology"
)

// Pod creates a running, ready Pod of an app on a Node, with a host's addresses. Ports are needed for Services with
// named target ports.
func (n *Namespace) Pod(name, app, node string, at *topology.Host, ports ...corev1.ContainerPort) *corev1.Pod {
	n.Helper()
	pod, err := n.cluster.Admin.CoreV1().Pods(n.name).Create(n.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appKey: app}},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "it", Image: "none", Ports: ports}},
		},
	}, metav1.CreateOptions{})
	n.must(err)
	return n.changeStatus(pod.Name, func(s *corev1.PodStatus) {
		s.Phase, s.PodIP = corev1.PodRunning, at.IPv4.String()
		for _, a := range addresses(at) {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: a.String()})
		}
		setReady(s, true)
	})
}

// SetReady sets the Ready condition, as after a readiness probe.
func (n *Namespace) SetReady(pod string, ready bool) {
	n.Helper()
	n.changeStatus(pod, func(s *corev1.PodStatus) { setReady(s, ready) })
}

func setReady(s *corev1.PodStatus, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
}

// Terminate deletes a Pod with a grace period: it stays as terminating until Remove. Its endpoint is serving as long as
// the Pod is ready.
func (n *Namespace) Terminate(pod string) { n.Helper(); n.deletePod(pod, 600) }

// Remove deletes a Pod at once.
func (n *Namespace) Remove(pod string) { n.Helper(); n.deletePod(pod, 0) }

func (n *Namespace) deletePod(name string, graceSeconds int64) {
	n.Helper()
	o := metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds}
	n.must(n.cluster.Admin.CoreV1().Pods(n.name).Delete(n.Context(), name, o))
}

func (n *Namespace) changeStatus(pod string, f func(*corev1.PodStatus)) *corev1.Pod {
	n.Helper()
	pods := n.cluster.Admin.CoreV1().Pods(n.name)
	var p *corev1.Pod
	n.must(retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if p, err = pods.Get(n.Context(), pod, metav1.GetOptions{}); err != nil {
			return err
		}
		f(&p.Status)
		p, err = pods.UpdateStatus(n.Context(), p, metav1.UpdateOptions{})
		return err
	}))
	return p
}
