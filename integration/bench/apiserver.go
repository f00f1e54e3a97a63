//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// inventory answers the watches of a service proxy like an API server, with objects that it generates on the fly. A
// real API server would need minutes to store a million endpoints, and gigabytes of memory.
type inventory struct {
	services, endpoints int // endpoints of each Service, at most 100: what a controller puts into one slice
}

func (v inventory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/v1/services":
		v.watch(w, r, v.all(v.service), &corev1.Service{TypeMeta: typeOf("v1", "Service")})
	case "/apis/discovery.k8s.io/v1/endpointslices":
		v.watch(w, r, v.all(v.slice), &discoveryv1.EndpointSlice{TypeMeta: typeOf("discovery.k8s.io/v1", "EndpointSlice")})
	case "/api/v1/nodes":
		v.watch(w, r, func(func(runtime.Object) bool) {}, &corev1.Node{TypeMeta: typeOf("v1", "Node")})
	default:
		http.NotFound(w, r)
	}
}

func typeOf(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

// watch sends all objects, the bookmark that ends the initial events, and nothing more.
func (v inventory) watch(w http.ResponseWriter, r *http.Request, all iter.Seq[runtime.Object], end metav1.Object) {
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		http.Error(w, "only watches with sendInitialEvents are supported", http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
	for o := range all {
		if send(frames, "ADDED", o) != nil {
			return // the client has disconnected
		}
	}
	end.SetResourceVersion("1")
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	if send(frames, "BOOKMARK", end.(runtime.Object)) == nil {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// send writes one event.
func send(to io.Writer, kind string, o runtime.Object) error {
	var text bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &text); err != nil {
		return err
	}
	event, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: text.Bytes()}}).Marshal()
	if err != nil {
		return err
	}
	_, err = to.Write(event)
	return err
}

func (v inventory) all(one func(i int, name string, address netip.Addr) runtime.Object) iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		for i, address := range drawn(v.services) {
			if !yield(one(i, fmt.Sprintf("service-%05d", i), address)) {
				return
			}
		}
	}
}

func (v inventory) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "production", Name: name, ResourceVersion: "1",
		Labels:      map[string]string{"app": name, discoveryv1.LabelServiceName: name},
		Annotations: map[string]string{"example.org/what-others-wrote": strings.Repeat("x", 500)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl",
			FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 800))}},
	}
}

func (v inventory) service(_ int, name string, address netip.Addr) runtime.Object {
	return &corev1.Service{TypeMeta: typeOf("v1", "Service"), ObjectMeta: v.meta(name), Spec: corev1.ServiceSpec{
		ClusterIP: address.String(), ClusterIPs: []string{address.String()}, Selector: map[string]string{"app": name},
		Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "http", Port: 80,
			Protocol: corev1.ProtocolTCP}},
	}}
}

// slice has endpoints on 500 nodes in three zones.
func (v inventory) slice(i int, name string, _ netip.Addr) runtime.Object {
	s := &discoveryv1.EndpointSlice{
		TypeMeta: typeOf("discovery.k8s.io/v1", "EndpointSlice"), ObjectMeta: v.meta(name),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)),
			Protocol: new(corev1.ProtocolTCP)}},
	}
	for e := range v.endpoints {
		s.Endpoints = append(s.Endpoints, v.endpoint(name, i*v.endpoints+e))
	}
	return s
}

func (v inventory) endpoint(service string, n int) discoveryv1.Endpoint {
	zone := fmt.Sprintf("zone-%c", 'a'+n%3)
	return discoveryv1.Endpoint{
		Addresses:  []string{netip.AddrFrom4([4]byte{10, 128 | byte(n>>16), byte(n >> 8), byte(n)}).String()},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		NodeName:   new(fmt.Sprintf("node-%03d.example.org", n%500)), Zone: &zone,
		Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}},
		TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: "production", Name: fmt.Sprintf("%s-76989858-%05d", service, n),
			UID: "b2ea7767-2a5e-4a0c-ba6e-000000000000",
		},
	}
}
