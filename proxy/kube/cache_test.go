package kube

import (
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/proxy/service"
)

func newCache(t *testing.T) (*Cache, *service.Store, *logtest.Hook) {
	t.Helper()
	log, hook := logtest.NewNullLogger()
	store := service.NewStore()
	return NewCache(store, TranslateOptions{NodeName: "n1"}, log), store, hook
}

func TestSlicesAndServiceComeInAnyOrder(t *testing.T) {
	const spec = "spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}"
	svc, a := objects(t, svcWith(spec)+sliceWith("a", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.1]}]"))
	_, b := objects(t, svcWith(spec)+sliceWith("b", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2]}]"))
	const front = "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n"
	const one, two = "  -> 10.244.0.1:80 ready serving\n", "  -> 10.244.0.2:80 ready serving\n"
	elsewhere := a[0].DeepCopy()
	elsewhere.Labels["kubernetes.io/service-name"] = "other"
	cache, store, _ := newCache(t)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"a slice first", func() { cache.Set(a[0]) }, ""},
		{"its Service", func() { cache.Set(svc) }, front + one},
		{"a second slice", func() { cache.Set(b[0]) }, front + one + two},
		{"a slice changes hands", func() { cache.Set(elsewhere) }, front + two},
		{"and comes back", func() { cache.Set(a[0]) }, front + one + two},
		{"a slice goes", func() { cache.Delete(Key{KindEndpointSlice, "shop", "b"}) }, front + one},
		{"a stranger goes", func() { cache.Delete(Key{KindEndpointSlice, "shop", "none"}, Key{KindService, "shop", "none"}) }, front + one},
		{"the Service goes", func() { cache.Delete(Key{KindService, "shop", "cart"}) }, ""},
		{"and comes back", func() { cache.Set(svc) }, front + one},
		{"all go", func() { cache.Delete(Key{KindService, "shop", "cart"}, Key{KindEndpointSlice, "shop", "a"}) }, ""},
	} {
		step.do()
		if got := render(store.All()); got != step.want {
			t.Errorf("%s: served\n%swant\n%s", step.what, got, step.want)
		}
	}
	if len(cache.owners) > 0 || len(cache.ownerOfSlice) > 0 {
		t.Error("left over:", cache.owners, cache.ownerOfSlice)
	}
	if svcs, slices := cache.Changes(); svcs != 4 || slices != 6 {
		t.Errorf("%d changes of Services, %d of slices", svcs, slices)
	}
}

func TestProblemsAreSaidOnceUntilTheyChange(t *testing.T) {
	cache, _, hook := newCache(t)
	say := func(spec string) int {
		hook.Reset()
		svc, _ := objects(t, svcWith(spec))
		cache.Set(svc)
		return len(messages(hook, logrus.WarnLevel))
	}
	bad := "spec: {clusterIP: 10.96.0.7, ports: [{port: 80, protocol: SCTP}]}"
	for i, step := range []struct {
		spec string
		want int
	}{
		{bad, 1}, {bad, 0},
		{"spec: {clusterIP: 10.96.0.7, sessionAffinity: X, ports: [{port: 80, protocol: SCTP}]}", 1},
		{"spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}", 0},
		{bad, 1},
	} {
		if got := say(step.spec); got != step.want {
			t.Errorf("step %d: said %d, want %d", i, got, step.want)
		}
	}
}

func TestNodeIsKept(t *testing.T) {
	cache, _, _ := newCache(t)
	other, ours := &corev1.Node{}, &corev1.Node{}
	other.Name, ours.Name = "n2", "n1"
	ours.Labels = map[string]string{"topology.kubernetes.io/zone": "z1"}
	ours.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "x"},
	}
	cache.Set(other)
	if _, ok := cache.Node(); ok {
		t.Error("took another node for ours")
	}
	cache.Set(ours)
	if n, ok := cache.Node(); !ok || n.Zone != "z1" || len(n.Addresses) != 2 || n.Addresses[0].String() != "10.0.0.1" {
		t.Errorf("%+v %v", n, ok)
	}
	cache.Delete(Key{KindNode, "", "n2"}, Key{KindNode, "", "n1"})
	if _, ok := cache.Node(); ok {
		t.Error("kept a node that is gone")
	}
}
