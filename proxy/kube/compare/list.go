package compare

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// List reads the objects of a cluster, page by page. What may not be listed is Missing, other than Services and
// EndpointSlices.
func List(ctx context.Context, client kubernetes.Interface) (*Objects, error) {
	o := &Objects{}
	core, discovery, networking := client.CoreV1(), client.DiscoveryV1(), client.NetworkingV1()
	for _, kind := range []struct {
		name   string
		needed bool
		list   func(context.Context, metav1.ListOptions) (runtime.Object, error)
	}{
		{"services", true, page(core.Services("").List)},
		{"endpointslices", true, page(discovery.EndpointSlices("").List)},
		{"nodes", false, page(core.Nodes().List)},
		{"pods", false, page(core.Pods("").List)},
		{"namespaces", false, page(core.Namespaces().List)},
		{"networkpolicies", false, page(networking.NetworkPolicies("").List)},
	} {
		err := pager.New(kind.list).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			o.add(item)
			return nil
		})
		switch {
		case err == nil:
		case !kind.needed && apierrors.IsForbidden(err):
			o.Missing = append(o.Missing, kind.name+": "+err.Error())
		default:
			return nil, fmt.Errorf("list %s: %w", kind.name, err)
		}
	}
	return o, nil
}

// page adapts the List of a typed client.
func page[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}
