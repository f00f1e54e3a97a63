package apiclient

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Scheme has the kinds that portald reads and writes. client-go's own has all kinds of Kubernetes: with it and the
// Clientset, the program is half as large again.
var Scheme = newScheme()

// Codecs decode the kinds of Scheme.
var Codecs = serializer.NewCodecFactory(Scheme)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	add := func(group schema.GroupVersion, kinds ...runtime.Object) {
		s.AddKnownTypes(group, kinds...)
		metav1.AddToGroupVersion(s, group)
	}
	add(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{}, &corev1.Node{}, &corev1.NodeList{},
		&corev1.Pod{}, &corev1.PodList{}, &corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.List{})
	add(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	add(networkingv1.SchemeGroupVersion, &networkingv1.ServiceCIDR{}, &networkingv1.ServiceCIDRList{},
		&networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicyList{})
	add(eventsv1.SchemeGroupVersion, &eventsv1.Event{})
	add(autoscalingv1.SchemeGroupVersion, &autoscalingv1.Scale{})
	add(appsv1.SchemeGroupVersion) // of its kinds only the scale is used
	return s
}
