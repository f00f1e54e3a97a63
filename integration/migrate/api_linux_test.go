package migrate

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/portald/portald/integration/bed"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// api is an API server for machines on which a real one would take minutes to start: it lists objects that never
// change. What it does not have is an empty list, or not found.
type api map[string]any // lists and objects, by path

// ServeHTTP answers lists, and watches in which nothing happens.
func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, known := a[r.URL.Path]
	ask := r.URL.Query()
	switch watch, _ := strconv.ParseBool(ask.Get("watch")); {
	case !known:
		http.NotFound(w, r)
	case ask.Get("sendInitialEvents") != "": // clients list then
		http.Error(w, "initial events are not supported", http.StatusBadRequest)
	case watch:
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush() // or the client has gone
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(what)
	}
}

// serveAPI serves the objects at the node itself, and returns the path of a kubeconfig.
func serveAPI(b *bed.Bed, a api) (kubeconfig string) {
	b.Helper()
	const at = "127.0.0.1:6444"
	l, err := b.Node.Listen("tcp", at)
	b.Must(err)
	s := &http.Server{Handler: a}
	b.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }() // until then
	return b.WriteManifest("kubeconfig", `{apiVersion: v1, kind: Config, current-context: it,
clusters: [{name: it, cluster: {server: "http://`+at+`"}}],
contexts: [{name: it, context: {cluster: it, user: it}}],
users: [{name: it, user: {}}]}
`)
}

// objects are a Node and the Service cart with two pods of it as endpoints, and one without any.
func objects(b *bed.Bed) api {
	version := metav1.ListMeta{ResourceVersion: "1"}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "it", ResourceVersion: "1"}
	}
	node := corev1.Node{ObjectMeta: meta("", "a"), TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}}
	for _, ip := range []string{b.Node.IPv4.String(), b.Node.IPv6.String()} {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	v4, v6 := b.Net.PodRange()
	node.Spec.PodCIDR, node.Spec.PodCIDRs = v4.String(), []string{v4.String(), v6.String()}
	cart := corev1.Service{ObjectMeta: meta("shop", "cart"), Spec: alike("cart", bed.NodePort, bed.IP4, bed.IP6)}
	cart.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	nobody := corev1.Service{ObjectMeta: meta("shop", "nobody"),
		Spec: alike("nobody", 30081, "10.96.0.11", "fd00:10:96::11")}
	nobody.Spec.IPFamilies = cart.Spec.IPFamilies
	slices := &discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList",
		APIVersion: "discovery.k8s.io/v1"}, ListMeta: version}
	for _, of := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		s := discoveryv1.EndpointSlice{ObjectMeta: meta("shop", "cart-"+string(of)), AddressType: of}
		s.Labels = map[string]string{discoveryv1.LabelServiceName: "cart"}
		for _, p := range cart.Spec.Ports {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol,
				Port: new(int32(bed.PodPort))})
		}
		for i := range 2 {
			pod := b.Net.Pod(i)
			ip := pod.IPv4
			if of == discoveryv1.AddressTypeIPv6 {
				ip = pod.IPv6
			}
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip.String()}, NodeName: &node.Name})
		}
		slices.Items = append(slices.Items, s)
	}
	return api{
		"/api/v1/services": &corev1.ServiceList{TypeMeta: metav1.TypeMeta{Kind: "ServiceList", APIVersion: "v1"},
			ListMeta: version, Items: []corev1.Service{cart, nobody}},
		"/api/v1/nodes": &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"},
			ListMeta: version, Items: []corev1.Node{node}},
		"/api/v1/nodes/a":                          &node,
		"/apis/discovery.k8s.io/v1/endpointslices": slices,
		"/apis/networking.k8s.io/v1/servicecidrs": map[string]any{"kind": "ServiceCIDRList",
			"apiVersion": "networking.k8s.io/v1", "metadata": version, "items": []any{}},
	}
}
