package cluster

import (
	"context"
	"net"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// nodeDialer connects to the daemon of a node: in the pod that was found, or in the one that has replaced it since, as
// a rollout does while a command goes on.
type nodeDialer struct {
	core    rest.Interface
	options Options

	mu  sync.Mutex
	pod *corev1.Pod // guarded by mu
}

func (d *nodeDialer) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	pod := d.pod
	d.mu.Unlock()
	c, err := d.dialPod(ctx, pod)
	if err == nil || ctx.Err() != nil {
		return c, err
	}
	pods, failed := podsOf(ctx, d.core, pod.Namespace, "spec.nodeName="+pod.Spec.NodeName)
	next := ofNodes(pods)[pod.Spec.NodeName]
	if failed != nil || next == nil || next.Name == pod.Name {
		return nil, err
	}
	if c, err = d.dialPod(ctx, next); err == nil {
		d.mu.Lock()
		d.pod = next
		d.mu.Unlock()
	}
	return c, err
}

func (d *nodeDialer) dialPod(ctx context.Context, pod *corev1.Pod) (net.Conn, error) {
	connect := []string{"portald", "connect"}
	if d.options.ReadOnly {
		connect = append(connect, "--read-only") // the policy of deploy/ looks at this place
	}
	e := executor{d.core, d.options.Config, pod.Namespace, pod.Name}
	return e.dial(append(connect, socketFlag(pod)...))(ctx)
}

// socketFlag says where the daemon of a pod has its socket, if that is not the usual place.
func socketFlag(pod *corev1.Pod) []string {
	if socket := pod.Annotations[SocketAnnotation]; socket != "" {
		return []string{"--socket", socket}
	}
	return nil
}
