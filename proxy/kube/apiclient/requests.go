package apiclient

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientcache "k8s.io/client-go/tools/cache"
)

// Resources that are listed and watched.
var (
	Services        = corev1.SchemeGroupVersion.WithResource("services")
	Nodes           = corev1.SchemeGroupVersion.WithResource("nodes")
	Pods            = corev1.SchemeGroupVersion.WithResource("pods")
	Namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	EndpointSlices  = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	ServiceCIDRs    = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	NetworkPolicies = networkingv1.SchemeGroupVersion.WithResource("networkpolicies")
)

// Objects lists and watches the objects of a resource in all namespaces.
func (c *Client) Objects(resource schema.GroupVersionResource) *clientcache.ListWatch {
	return clientcache.NewFilteredListWatchFromClient(c.groups[resource.GroupVersion()], resource.Resource,
		metav1.NamespaceAll, func(*metav1.ListOptions) {})
}

// CreateEvent creates an event in the namespace that it names.
func (c *Client) CreateEvent(ctx context.Context, e *eventsv1.Event) error {
	return c.groups[eventsv1.SchemeGroupVersion].Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
}

// PatchEvent changes an event by a JSON merge patch.
func (c *Client) PatchEvent(ctx context.Context, namespace, name string, patch []byte) error {
	return c.groups[eventsv1.SchemeGroupVersion].Patch(types.MergePatchType).Namespace(namespace).Resource("events").
		Name(name).Body(patch).Do(ctx).Error()
}

// Scale returns the scale of a workload of the group apps; resource is the kind in plural, such as deployments.
func (c *Client) Scale(ctx context.Context, resource, namespace, name string) (*autoscalingv1.Scale, error) {
	out := &autoscalingv1.Scale{}
	err := c.groups[appsv1.SchemeGroupVersion].Get().Namespace(namespace).Resource(resource).Name(name).
		SubResource("scale").Do(ctx).Into(out)
	return out, err
}

// UpdateScale writes the scale of a workload.
func (c *Client) UpdateScale(ctx context.Context, resource string, scale *autoscalingv1.Scale) error {
	return c.groups[appsv1.SchemeGroupVersion].Put().Namespace(scale.Namespace).Resource(resource).Name(scale.Name).
		SubResource("scale").VersionedParams(&metav1.UpdateOptions{FieldManager: "portald"}, metav1.ParameterCodec).
		Body(scale).Do(ctx).Error()
}
