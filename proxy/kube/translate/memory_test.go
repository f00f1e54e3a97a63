package translate

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
)

// arrivedService is a Service as it comes over the wire, nothing of it shared with others.
func arrivedService(tb testing.TB, i int) *corev1.Service {
	tb.Helper()
	name := fmt.Sprintf("service-%05d", i)
	policy := corev1.ServiceInternalTrafficPolicyCluster
	wire := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "production", UID: types.UID(fmt.Sprintf("9a777633-4950-4f5c-bacf-%012d", i)),
			ResourceVersion: fmt.Sprint(100000 + i), Labels: map[string]string{"app": name, "team": "shop"},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": fmt.Sprintf("%0500d", i)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl",
				FieldsV1: metav1.NewFieldsV1(fmt.Sprintf("%0800d", i))}},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip(96, i), ClusterIPs: []string{ip(96, i)}, Selector: map[string]string{"app": name},
			InternalTrafficPolicy: &policy,
			Ports:                 []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
			Type:                  corev1.ServiceTypeClusterIP,
		},
	}
	text, err := wire.Marshal()
	check(tb, err)
	out := &corev1.Service{}
	check(tb, out.Unmarshal(text))
	return out
}

// arrivedSlice is a slice of that Service with n endpoints, on 500 nodes in 3 zones, with hints.
func arrivedSlice(tb testing.TB, i, n int) *discoveryv1.EndpointSlice {
	tb.Helper()
	name := fmt.Sprintf("service-%05d", i)
	wire := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-b5672", Namespace: "production", ResourceVersion: fmt.Sprint(200000 + i),
			Labels:      map[string]string{discoveryv1.LabelServiceName: name, "app": name},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-11-21T12:52:05.123456Z"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager",
				FieldsV1: metav1.NewFieldsV1(fmt.Sprintf("%0800d", i))}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)),
			Protocol: new(corev1.ProtocolTCP)}},
	}
	for e := range n {
		zone := fmt.Sprintf("europe-west4-%c", 'a'+e%3)
		wire.Endpoints = append(wire.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{ip(100+e/16, i*16+e%16)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(fmt.Sprintf("node-%03d.europe-west4.example.net", (i+e)%500)),
			Zone:       new(zone),
			Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}},
			TargetRef: &corev1.ObjectReference{
				Kind: "Pod", Namespace: "production", Name: fmt.Sprintf("%s-76989858-%05d", name, e),
				UID: types.UID(fmt.Sprintf("b2ea7767-2a5e-4a0c-ba6e-%012d", e)),
			},
		})
	}
	text, err := wire.Marshal()
	check(tb, err)
	out := &discoveryv1.EndpointSlice{}
	check(tb, out.Unmarshal(text))
	return out
}

// ip is an address of 10.first.0.0/16 and what follows.
func ip(first, n int) string { return fmt.Sprintf("10.%d.%d.%d", first, n>>8&255, n&255) }

// heapOf returns how many bytes the result of load keeps in memory, without garbage.
func heapOf(load func() any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	keep := load()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(keep)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// A thousand Services stay small, and so do a hundred thousand endpoints: in the cache and the store together.
func TestMemory(t *testing.T) {
	const services, endpoints = 1000, 100
	fill := func(each int) func() any {
		return func() any {
			store := service.NewStore()
			cache := NewCache(store, Options{NodeName: "node-001.europe-west4.example.net", Zone: "europe-west4-a"}, quiet())
			for i := range services {
				cache.Set(arrivedService(t, i))
				if each > 0 {
					cache.Set(arrivedSlice(t, i, each))
				}
			}
			store.Take()
			return []any{cache, store}
		}
	}
	alone := heapOf(fill(0))
	full := heapOf(fill(endpoints))
	perService, perEndpoint := alone/services, (full-alone)/services/endpoints
	t.Logf("%d bytes a Service, %d bytes an endpoint", perService, perEndpoint)
	if perService > 2000 || perEndpoint > 250 {
		t.Errorf("%d bytes a Service and %d an endpoint are more than 2000 and 250", perService, perEndpoint)
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}
