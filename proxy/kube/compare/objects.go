package compare

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// Objects has the objects of a cluster that decide how its Services are served.
type Objects struct {
	Services   []*corev1.Service
	Slices     []*discoveryv1.EndpointSlice
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	Policies   []*networkingv1.NetworkPolicy
	// Missing are kinds that were not read although they count, each with the reason.
	Missing []string

	podsOf map[string][]*corev1.Pod // by namespace, once one was asked for
}

// add keeps an object of the kinds that count.
func (o *Objects) add(object runtime.Object) {
	switch x := object.(type) {
	case *corev1.Service:
		o.Services = append(o.Services, x)
	case *discoveryv1.EndpointSlice:
		o.Slices = append(o.Slices, x)
	case *corev1.Node:
		o.Nodes = append(o.Nodes, x)
	case *corev1.Pod:
		o.Pods = append(o.Pods, x)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, x)
	case *networkingv1.NetworkPolicy:
		o.Policies = append(o.Policies, x)
	}
}

// podLabels are the labels of the pods behind a Service: of the pods that its selector matches, and if none is known
// the labels of the selector itself, which all of them have.
func (o *Objects) podLabels(svc *corev1.Service) []labels.Set {
	if len(svc.Spec.Selector) == 0 {
		return nil
	}
	if o.podsOf == nil {
		o.podsOf = map[string][]*corev1.Pod{}
		for _, pod := range o.Pods {
			o.podsOf[pod.Namespace] = append(o.podsOf[pod.Namespace], pod)
		}
	}
	var out []labels.Set
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	for _, pod := range o.podsOf[svc.Namespace] {
		if selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, pod.Labels)
		}
	}
	if out == nil {
		out = []labels.Set{svc.Spec.Selector}
	}
	return out
}

// namespaceLabels returns the labels of a namespace; of one that is not known, the label that the API server gives to
// each.
func (o *Objects) namespaceLabels(name string) labels.Set {
	for _, ns := range o.Namespaces {
		if ns.Name == name {
			return ns.Labels
		}
	}
	return labels.Set{corev1.LabelMetadataName: name}
}
