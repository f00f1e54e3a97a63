package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// nodesOf returns the names of the nodes that are meant: a node by its name, the node of a pod, NAMESPACE/POD, and that
// of an address, of a pod or of the node itself.
func nodesOf(ctx context.Context, core rest.Interface, meant []string, known map[string]*corev1.Pod) ([]string, error) {
	names := make([]string, 0, len(meant))
	for _, text := range meant {
		name, err := nodeOf(ctx, core, text, known)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func nodeOf(ctx context.Context, core rest.Interface, text string, known map[string]*corev1.Pod) (string, error) {
	if known[text] != nil { // a node's name may look like an address
		return text, nil
	}
	if namespace, name, ok := strings.Cut(strings.TrimPrefix(text, "pod/"), "/"); ok {
		return nodeOfPod(ctx, core, namespace, name)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text, nil
	}
	for name, pod := range known { // they use the network of their node
		if pod.Status.HostIP == address.String() {
			return name, nil
		}
	}
	return nodeOfAddress(ctx, core, address)
}

func nodeOfPod(ctx context.Context, core rest.Interface, namespace, name string) (string, error) {
	var pod corev1.Pod
	err := core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(&pod)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("find the node of pod %s/%s: there is no such pod", namespace, name)
	case err != nil:
		return "", fmt.Errorf("find the node of pod %s/%s: %w", namespace, name, err)
	case pod.Spec.NodeName == "":
		return "", fmt.Errorf("find the node of pod %s/%s: it is not scheduled", namespace, name)
	}
	return pod.Spec.NodeName, nil
}

func nodeOfAddress(ctx context.Context, core rest.Interface, address netip.Addr) (string, error) {
	var pods corev1.PodList
	err := core.Get().Resource("pods").Param("fieldSelector", "status.podIP="+address.String()).Do(ctx).Into(&pods)
	if err != nil {
		return "", fmt.Errorf("find the node of address %s: %w", address, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
			return pod.Spec.NodeName, nil
		}
	}
	return "", fmt.Errorf("find the node of address %s: no running pod has it", address)
}
