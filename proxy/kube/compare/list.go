package compare

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	"github.com/portald/portald/proxy/kube/apiclient"
)

// List reads the objects of a cluster, page by page. Kinds that may not be listed are Missing, other than Services and
// EndpointSlices.
func List(ctx context.Context, client *apiclient.Client) (*Objects, error) {
	o := &Objects{}
	for _, kind := range []struct {
		schema.GroupVersionResource
		needed bool
	}{
		{apiclient.Services, true}, {apiclient.EndpointSlices, true}, {apiclient.Nodes, false}, {apiclient.Pods, false},
		{apiclient.Namespaces, false}, {apiclient.NetworkPolicies, false},
	} {
		page := client.Objects(kind.GroupVersionResource).ListWithContext
		err := pager.New(page).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			o.add(item)
			return nil
		})
		switch {
		case err == nil:
		case !kind.needed && apierrors.IsForbidden(err):
			o.Missing = append(o.Missing, kind.Resource+": "+err.Error())
		default:
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
	}
	return o, nil
}
