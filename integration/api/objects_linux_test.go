package api

import (
	"net/netip"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"

	corev1 "k8s.io/api/core/v1"

	discoveryv1 "k8s.io/api/discovery/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objects creates Services whose EndpointSlices the test writes itself, in one namespace: no controller changes them.
// Each Service has one slice with the same name.
type objects struct {
	bed       *apibed.Bed
	namespace string
}

// newObjects creates the namespace.
func newObjects(b *apibed.Bed, namespace string) *objects {
	b.Helper()
	b.API.Namespace(b, namespace)
	return &objects{b, namespace}
}

func (o *objects) as(b *apibed.Bed) *objects { return &objects{b, o.namespace} }

// pods returns the addresses of the first node's pods with these numbers.
func (o *objects) pods(numbers ...int) (out []netip.Addr) {
	for _, i := range numbers {
		out = append(out, o.bed.Sites[0].Net.Pod(i).IPv4)
	}
	return out
}

// service creates a Service with port 80 and its slice, and returns its address.
func (o *objects) service(name string, port int32, endpoints ...netip.Addr) string {
	o.bed.Helper()
	return o.write(serviceOf(name), sliceOf(name, port, endpoints...))
}

// write creates a Service and its slice, and returns its address.
func (o *objects) write(service *corev1.Service, slice *discoveryv1.EndpointSlice) string {
	o.bed.Helper()
	ctx, admin := o.bed.Context(), o.bed.API.Admin
	var made *corev1.Service
	o.tries("make Service "+service.Name, func() (err error) {
		all := admin.CoreV1().Services(o.namespace)
		if made, err = all.Create(ctx, service, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			made, err = all.Get(ctx, service.Name, metav1.GetOptions{})
		}
		return err
	})
	o.tries("make slice "+slice.Name, func() error {
		_, err := admin.DiscoveryV1().EndpointSlices(o.namespace).Create(ctx, slice, metav1.CreateOptions{})
		return err
	})
	return apibed.On80(made.Spec.ClusterIP)
}

// lead replaces the endpoints of a Service.
func (o *objects) lead(name string, endpoints ...netip.Addr) {
	o.bed.Helper()
	ctx, all := o.bed.Context(), o.bed.API.Admin.DiscoveryV1().EndpointSlices(o.namespace)
	o.tries("change slice "+name, func() error {
		s, err := all.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Endpoints = endpointsOf(endpoints...)
		_, err = all.Update(ctx, s, metav1.UpdateOptions{})
		return err
	})
}

// remove deletes a Service and its slice, if they exist.
func (o *objects) remove(name string) {
	o.bed.Helper()
	o.tries("delete Service "+name, func() error {
		return o.bed.API.Admin.CoreV1().Services(o.namespace).Delete(o.bed.Context(), name, metav1.DeleteOptions{})
	})
	o.removeSlice(name)
}

func (o *objects) removeSlice(name string) {
	o.bed.Helper()
	o.tries("delete slice "+name, func() error {
		return o.bed.API.Admin.DiscoveryV1().EndpointSlices(o.namespace).Delete(o.bed.Context(), name, metav1.DeleteOptions{})
	})
}

// tries repeats a request until it succeeds, because the API server rejects many requests right after a restart. An
// object that already exists, or is already deleted, shows that the answer to an earlier attempt was lost.
func (o *objects) tries(what string, do func() error) {
	o.bed.Helper()
	var err error
	if !bed.Within(apibed.ChangeTimeout, func() bool {
		err = do()
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
	}) {
		o.bed.Fatalf("%s: %v", what, err)
	}
}

// serviceOf is a Service with port 80 and without a selector.
func serviceOf(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// sliceOf is the slice of a Service; all endpoints are ready.
func sliceOf(service string, port int32, endpoints ...netip.Addr) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: service, Labels: map[string]string{
			discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "tests.portald.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(port)}},
		Endpoints:   endpointsOf(endpoints...),
	}
}

func endpointsOf(addrs ...netip.Addr) (out []discoveryv1.Endpoint) {
	for _, a := range addrs {
		out = append(out, discoveryv1.Endpoint{Addresses: []string{a.String()}})
	}
	return out
}
