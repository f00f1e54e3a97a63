package translate

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

// named gives the Service and its slice another name.
func named(name string, svc *corev1.Service, slices []*discoveryv1.EndpointSlice) (*corev1.Service,
	*discoveryv1.EndpointSlice) {
	svc.Name = name
	slices[0].Name, slices[0].Labels["kubernetes.io/service-name"] = name+"-1", name
	return svc, slices[0]
}

// An endpoint that is a frontend of any Service is named, whichever of the two comes first, and once.
func TestEndpointsThatAreFrontends(t *testing.T) {
	object := func(name, ip, endpoint string, port int) (*corev1.Service, *discoveryv1.EndpointSlice) {
		svc, slices := objecttest.Objects(t, objecttest.Service("spec: {type: NodePort, clusterIP: "+ip+", ports: [{port: "+
			"80, nodePort: 30080}]}")+
			objecttest.Slice("x", "IPv4", fmt.Sprintf("ports: [{port: %d}]\nendpoints: [{addresses: [%s]}]", port, endpoint)))
		if name != "a" {
			svc.Spec.Ports[0].NodePort = 0
		}
		return named(name, svc, slices)
	}
	for _, c := range []struct {
		what     string
		endpoint string
		port     int
		holder   string // empty: no problem
	}{
		{"its own", "10.96.0.2", 80, "shop/b"},
		{"another's", "10.96.0.1", 80, "shop/a"},
		{"another port", "10.96.0.1", 81, ""},
		{"a node port here", "192.0.2.1", 30080, "shop/a"},
		{"a node port elsewhere", "192.0.2.2", 30080, ""},
		{"none", "10.244.0.1", 8080, ""},
	} {
		a, aSlice := object("a", "10.96.0.1", "10.244.0.9", 8080)
		b, bSlice := object("b", "10.96.0.2", c.endpoint, c.port)
		for order, steps := range map[string][]func(*Cache){
			"endpoint last": {func(k *Cache) { k.Set(a, aSlice, b) }, func(k *Cache) { k.Set(bSlice) }},
			"frontend last": {func(k *Cache) { k.Set(bSlice, aSlice) }, func(k *Cache) { k.Set(b) }, func(k *Cache) {
				k.Set(a)
			}},
			"all at once": {func(k *Cache) { k.Set(a, b, aSlice, bSlice) }},
			"gone and again": {func(k *Cache) { k.Set(bSlice, b) }, func(k *Cache) {
				k.Delete(Key{KindService, "shop", "b"})
			}, func(k *Cache) { k.Set(b, a) }},
		} {
			cache, _, _ := newCache(t)
			cache.SetNodeAddresses(func(addr netip.Addr) bool { return addr == netip.MustParseAddr("192.0.2.1") })
			var got []string
			cache.Report = func(svc service.Name, p Problem) { got = append(got, svc.String()+": "+p.Error()) }
			for _, step := range steps {
				step(cache)
			}
			want := 0
			if c.holder != "" {
				want = 1
				if order == "gone and again" && c.holder == "shop/b" {
					want = 2 // said of it as it came each time
				}
			}
			if len(got) != want || want > 0 && (!strings.HasPrefix(got[0], "shop/b: endpointslice shop/b-1: endpoints: ") ||
				!strings.Contains(got[0], "Service "+c.holder+" ")) {
				t.Errorf("%s, %s: reported %q, want %d that name %s", c.what, order, got, want, c.holder)
			}
			cache.Delete(Key{KindService, "shop", "a"}, Key{KindService, "shop", "b"}, Key{KindEndpointSlice, "shop", "a-1"},
				Key{KindEndpointSlice, "shop", "b-1"})
			if n := len(cache.conflicts.frontends) + len(cache.conflicts.endpoints) + len(cache.entries); n != 0 {
				t.Errorf("%s, %s: %d things left over", c.what, order, n)
			}
		}
	}
}

// Of pods nothing is kept, and a change of one Service concerns no other but those with its address for an endpoint.
func TestCrossingsTouchNobodyElse(t *testing.T) {
	cache, store, _ := newCache(t)
	for i := range 20 {
		cache.Set(arrivedService(t, i), arrivedSlice(t, i, 3))
	}
	if n := len(cache.conflicts.endpoints); n != 0 {
		t.Errorf("%d endpoints of pods are kept", n)
	}
	store.Take()
	cache.Delete(Key{KindService, "production", "service-00003"})
	if changes, _ := store.Take(); len(changes) != 1 {
		t.Errorf("%d service ports changed, want 1", len(changes))
	}
}
