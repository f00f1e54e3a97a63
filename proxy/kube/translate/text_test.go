package translate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/portal/service"
)

func cartOf(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, Ports: ports},
	}
}

func cartSlice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

// A text of a slice that Kubernetes would not take as a name is not kept, and is told as a problem of the Service, that
// is served nevertheless.
func TestTexts(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	ref := func(namespace, name string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) {
			e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}
		}
	}
	kind := func(name string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) { e.TargetRef = &corev1.ObjectReference{Kind: name, Name: name} }
	}
	node := func(name string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) { e.NodeName = &name }
	}
	zone := func(name string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) { e.Zone = &name }
	}
	hint := func(names ...string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) {
			e.Hints = &discoveryv1.EndpointHints{}
			for _, name := range names {
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: name})
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*discoveryv1.Endpoint)
		want   service.Endpoint
		field  string // of the problem; empty: there is none
	}{
		"a pod":               {ref("shop", "cart-0"), service.Endpoint{Pod: "shop/cart-0"}, ""},
		"its namespace is it": {ref("", "cart-0"), service.Endpoint{Pod: "shop/cart-0"}, ""},
		"the longest":         {ref("", long(253)), service.Endpoint{Pod: "shop/" + long(253)}, ""},
		"a longer one":        {ref("", long(254)), service.Endpoint{}, "targetRef.name"},
		"as long as may be":   {ref("", long(200_000)), service.Endpoint{}, "targetRef.name"},
		"another's pod":       {ref("prod", "db-0"), service.Endpoint{}, "targetRef.namespace"},
		"a long namespace":    {ref(long(1000), "db-0"), service.Endpoint{}, "targetRef.namespace"},
		"a name with a slash": {ref("", "../prod/db-0"), service.Endpoint{}, "targetRef.name"},
		"two lines":           {ref("", "a\nb"), service.Endpoint{}, "targetRef.name"},
		"an escape":           {ref("", "a\x1b[31m"), service.Endpoint{}, "targetRef.name"},
		"from right to left":  {ref("", "a\u202eb"), service.Endpoint{}, "targetRef.name"},
		"a node":              {node("n2.example.net"), service.Endpoint{Node: "n2.example.net"}, ""},
		"this node":           {node("n1"), service.Endpoint{Node: "n1", Local: true}, ""},
		"a long node":         {node(long(254)), service.Endpoint{}, "nodeName"},
		"a zone":              {zone("eu-west-1a"), service.Endpoint{Zone: "eu-west-1a"}, ""},
		"a long zone":         {zone(long(64)), service.Endpoint{}, "zone"},
		"a zone of two lines": {zone("a\nb"), service.Endpoint{}, "zone"},
		"hints":               {hint("a", "b"), service.Endpoint{}, ""},
		"a long hint":         {hint("a", long(64)), service.Endpoint{}, "hints.forZones"},
		"a hint of two":       {hint("a\nz"), service.Endpoint{}, "hints.forZones"},
		"too many hints":      {hint("a", "b", "c", "d", "e", "f", "g", "h", "i"), service.Endpoint{}, "hints.forZones"},
		"what is no pod":      {kind(long(9999)), service.Endpoint{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cache, store, _ := newCache(t)
			e := discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}}
			c.change(&e)
			cache.Set(cartOf(corev1.ServicePort{Name: "http", Port: 80}),
				cartSlice(e, discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}}))
			ports, _ := store.All()
			if len(ports) != 1 || len(ports[0].Endpoints) != 2 {
				t.Fatalf("served: %.500v", ports)
			}
			got := ports[0].Endpoints[0]
			c.want.Addr, c.want.Ready, c.want.Serving, c.want.NotHinted = got.Addr, true, true, got.NotHinted
			if got != c.want {
				t.Errorf("got %.500v, want %.500v", got, c.want)
			}
			var problems []Problem
			cache.EachProblem(func(_ service.Name, p Problem) { problems = append(problems, p) })
			if c.field == "" {
				if len(problems) > 0 {
					t.Errorf("problems: %.500v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Field != "endpoints[0]."+c.field || len(problems[0].Error()) > 500 ||
				problems[0].Object != "endpointslice shop/cart-1" {
				t.Errorf("problems: %.900v", problems)
			}
		})
	}
}

// The long name of a port of a slice is the name of no port of a Service, and is not kept.
func TestLongPortName(t *testing.T) {
	cache, _, _ := newCache(t)
	s := cartSlice(discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}})
	s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(strings.Repeat("x", 64)), Port: new(int32(81))})
	cache.Set(cartOf(corev1.ServicePort{Name: "http", Port: 80}), s)
	n := 0
	cache.EachProblem(func(_ service.Name, p Problem) {
		if n++; p.Field != "ports[1].name" {
			t.Error(p)
		}
	})
	if n != 1 || len(cache.slices[Key{KindEndpointSlice, "shop", "cart-1"}].ports) != 1 {
		t.Errorf("%d problems", n)
	}
}

// However much is wrong with a Service, its problems are few and short.
func TestProblemsAreFew(t *testing.T) {
	cache, store, hook := newCache(t)
	svc := cartOf(corev1.ServicePort{Name: "http", Port: 80})
	for i := range 10_000 { // annotations may have 256 KiB
		svc.Annotations[fmt.Sprint("portald.io/", i)] = "x"
	}
	svc.Annotations["portald.io/mode"] = strings.Repeat("x", 100_000)
	svc.Annotations["portald.io/"+strings.Repeat("x", 100_000)] = "x"
	all := []metav1.Object{svc}
	for i := range 20 {
		s := cartSlice()
		s.Name = fmt.Sprint("cart-", i)
		for j := range 1000 {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", j/256, j%256)},
				Zone: new(strings.Repeat("z", 200+j))})
		}
		all = append(all, s)
	}
	cache.Set(all...)
	n, size := 0, 0
	cache.EachProblem(func(_ service.Name, p Problem) { n, size = n+1, size+len(p.Error()) })
	if n == 0 || n > mostOfService || size > 100_000 || len(hook.AllEntries()) != n {
		t.Errorf("%d problems of %d bytes, %d log lines", n, size, len(hook.AllEntries()))
	}
	if ports, _ := store.All(); len(ports) != 1 || len(ports[0].Endpoints) != 1000 {
		t.Error("the Service is not served")
	}
}

// A Service and a slice of 1.5 MB each may have twenty thousand ports and a thousand endpoints: no more is made of them
// than a Service may have.
func TestManyPortsOfManyEndpoints(t *testing.T) {
	const ports, endpoints = 20_000, 1000
	cache, store, _ := newCache(t)
	svc, slice := cartOf(), cartSlice()
	slice.Ports = nil
	for i := range ports {
		name := fmt.Sprint("p", i)
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: name, Port: int32(i + 1)})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(i + 1))})
	}
	for i := range endpoints {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/256, i%256)}})
	}
	began := time.Now()
	cache.Set(svc, slice)
	t.Logf("took %s", time.Since(began))
	all, _ := store.All()
	n := 0
	for _, p := range all {
		n += len(p.Endpoints)
	}
	if len(all) != ports || n != mostEndpoints/endpoints*endpoints {
		t.Errorf("%d ports have %d endpoints", len(all), n)
	}
	if n := len(cache.conflicts.endpoints); n > 2*mostPossible {
		t.Errorf("%d endpoints are remembered that may be frontends", n)
	}
	found := false
	cache.EachProblem(func(_ service.Name, p Problem) { found = found || p.Field == "spec.ports" })
	if !found {
		t.Error("nothing tells of it")
	}
}

// The zone that a slice gives to somebody else's node is believed only as long as no other slice says otherwise.
func TestZonesThatAreContradicted(t *testing.T) {
	c := NewCache(service.NewStore(), Options{ClientPods: true}, quiet())
	slice := func(namespace, zone string) *discoveryv1.EndpointSlice {
		s := cartSlice(discoveryv1.Endpoint{Addresses: []string{"10.1.0.9"}, NodeName: new("n1"), Zone: &zone})
		s.Namespace = namespace
		return s
	}
	zones := func(want string) {
		t.Helper()
		wantWorkloads(t, c, map[string]string{"10.1.0.1": "shop/a n1 " + want})
	}
	c.Set(slice("shop", "z1"), pod("a", "n1", "10.1.0.1"))
	zones("z1")
	c.Set(slice("tenant", "z2"))
	zones("")
	c.Set(slice("tenant", "z1"))
	zones("z1")
	c.Set(slice("shop", "z3"), slice("tenant", "z3"))
	zones("z3")
	c.Delete(Key{KindEndpointSlice, "tenant", "cart-1"}, Key{KindEndpointSlice, "shop", "cart-1"})
	zones("")
	if len(c.clients.zones) != 0 {
		t.Errorf("left: %v", c.clients.zones)
	}
}
