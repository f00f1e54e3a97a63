package translate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

func newCache(t *testing.T) (*Cache, *service.Store, *logtest.Hook) {
	t.Helper()
	log, hook := logtest.NewNullLogger()
	store := service.NewStore()
	return NewCache(store, Options{NodeName: "n1"}, log), store, hook
}

func TestSlicesAndServiceComeInAnyOrder(t *testing.T) {
	const spec = "spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}"
	svc, a := objecttest.Objects(t, objecttest.Service(spec)+objecttest.Slice("a", "IPv4",
		"ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.1]}]"))
	_, b := objecttest.Objects(t, objecttest.Service(spec)+objecttest.Slice("b", "IPv4",
		"ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2]}]"))
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
		{"a stranger goes", func() {
			cache.Delete(Key{KindEndpointSlice, "shop", "none"}, Key{KindService, "shop", "none"})
		}, front + one},
		{"the Service goes", func() { cache.Delete(Key{KindService, "shop", "cart"}) }, ""},
		{"and comes back", func() { cache.Set(svc) }, front + one},
		{"all go", func() { cache.Delete(Key{KindService, "shop", "cart"}, Key{KindEndpointSlice, "shop", "a"}) }, ""},
	} {
		step.do()
		if got := objecttest.All(store); got != step.want {
			t.Errorf("%s: served\n%swant\n%s", step.what, got, step.want)
		}
	}
	if len(cache.entries) > 0 || len(cache.slices) > 0 {
		t.Error("left over:", cache.entries, cache.slices)
	}
	if svcs, slices := cache.Changes(); svcs != 4 || slices != 6 {
		t.Errorf("%d changes of Services, %d of slices", svcs, slices)
	}
}

func TestProblemsAreSaidOnceUntilTheyChange(t *testing.T) {
	cache, _, hook := newCache(t)
	say := func(spec string) int {
		hook.Reset()
		svc, _ := objecttest.Objects(t, objecttest.Service(spec))
		cache.Set(svc)
		return len(objecttest.Messages(hook, logrus.WarnLevel))
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

func TestProblemsAreReported(t *testing.T) {
	cache, _, _ := newCache(t)
	var got []string
	cache.Report = func(svc service.Name, p Problem) { got = append(got, svc.String()+" "+p.Field) }
	svc, slices := objecttest.Objects(t,
		objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80, protocol: SCTP}]}")+
			objecttest.Slice("a", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [127.0.0.1]}]"))
	cache.Set(svc)
	cache.Set(slices[0])
	if want := "[shop/cart spec.ports[0].protocol shop/cart endpoints[0].addresses[0]]"; fmt.Sprint(got) != want {
		t.Errorf("reported %v, want %s", got, want)
	}
}

func TestNodeIsKept(t *testing.T) {
	cache, _, hook := newCache(t)
	var told []string
	note := func(n Node, known bool) { told = append(told, fmt.Sprint(n.Zone, n.PodCIDRs, n.Eligible, known)) }
	cache.WatchNode(note)
	other := &corev1.Node{}
	other.Name = "n2"
	cache.Set(other)
	if _, ok := cache.Node(); ok {
		t.Error("took another node for ours")
	}
	cache.Set(objecttest.Node("z1"))
	if n, ok := cache.Node(); !ok || n.Zone != "z1" || len(n.Addresses) != 2 || n.Addresses[0].String() != "10.0.0.1" {
		t.Errorf("%+v %v", n, ok)
	}
	busy := objecttest.Node("z1")
	busy.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	cache.Set(busy) // nothing that is told
	tainted, going := objecttest.Node("z1"), objecttest.Node("z1")
	tainted.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
	cache.Set(tainted)
	cache.Set(objecttest.Node("z1"))
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	cache.Set(going)
	cache.WatchNode(note)
	cache.Delete(Key{KindNode, "", "n2"}, Key{KindNode, "", "n1"})
	if _, ok := cache.Node(); ok {
		t.Error("kept a node that is gone")
	}
	const here = "z1[10.244.1.0/24 fd01::/64] "
	want := []string{here + "true true", here + "false true", here + "true true", here + "false true", here + "false true",
		"[] false false", "[] false false"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got)\n%s", diff)
	}
	if said := objecttest.Messages(hook, logrus.WarnLevel); len(said) != 1 ||
		!strings.Contains(said[0], "Node n1: its Node object was removed") {
		t.Error("said:", said)
	}
}

// When the zone becomes known or changes, all Services are translated again; that the Node object goes changes nothing.
func TestZoneMovesHints(t *testing.T) {
	cache, store, _ := newCache(t)
	svc, slices := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}")+
		objecttest.Slice("a", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.1], hints: {forZones: "+
			"[{name: z1}]}}, "+
			"{addresses: [10.244.0.2], hints: {forZones: [{name: z2}]}}]"))
	cache.Set(svc, slices[0])
	notHinted := func() (out string) {
		ports, _ := store.All()
		for _, e := range ports[0].Endpoints {
			if e.NotHinted {
				out += e.Addr.Addr().String()
			}
		}
		return out
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"no Node", func() {}, ""},
		{"a Node", func() { cache.Set(objecttest.Node("z1")) }, "10.244.0.2"},
		{"another zone", func() { cache.Set(objecttest.Node("z2")) }, "10.244.0.1"},
		{"no Node any more", func() { cache.Delete(Key{KindNode, "", "n1"}) }, "10.244.0.1"},
		{"a Node without zone", func() { cache.Set(objecttest.Node("")) }, ""},
	} {
		step.do()
		if got := notHinted(); got != step.want {
			t.Errorf("%s: not hinted are %q, want %q", step.what, got, step.want)
		}
	}
}

func TestTriggerTimes(t *testing.T) {
	cache, store, _ := newCache(t)
	at := func(after time.Duration) string { return cache.started.Add(after).Format(time.RFC3339Nano) }
	svc, _ := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}"))
	cache.Set(svc)
	store.Take()
	slice := func(addr, when string) *discoveryv1.EndpointSlice {
		_, slices := objecttest.Objects(t, objecttest.Service("")+objecttest.Slice("a", "IPv4",
			"ports: [{port: 80}]\nendpoints: [{addresses: ["+addr+"]}]"))
		slices[0].Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": when}
		return slices[0]
	}
	for _, step := range []struct {
		what, addr, when string
		want             int
	}{
		{"from before the start", "10.0.0.1", at(-time.Second), 0},
		{"since", "10.0.0.2", at(time.Second), 1},
		{"another change, no other time", "10.0.0.3", at(time.Second), 0},
		{"a later one", "10.0.0.4", at(2 * time.Second), 1},
		{"no change", "10.0.0.4", at(3 * time.Second), 0},
		{"no time", "10.0.0.5", "soon", 0},
	} {
		cache.Set(slice(step.addr, step.when))
		if _, triggered := store.Take(); len(triggered) != step.want {
			t.Errorf("%s: %v", step.what, triggered)
		}
	}
}

// A deferred state comes whole, and a state that replaces another says what is gone.
func TestHoldAndReplace(t *testing.T) {
	cache, store, _ := newCache(t)
	svc, slices := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}")+
		objecttest.Slice("a", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.1]}]")+
		objecttest.Slice("b", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: [10.244.0.2]}]"))
	svc.ResourceVersion = "7"
	a, b := Trim(slices[0], cache.opts), Trim(slices[1], cache.opts)
	cache.Pause()
	cache.Replace(KindService, []Object{Trim(svc, cache.opts)})
	cache.Replace(KindEndpointSlice, []Object{a, b})
	if store.Pending() != 0 {
		t.Error("translated before the release")
	}
	cache.Resume()
	const front, one, two = "shop/cart/tcp\n  ClusterIP 10.96.0.7:80/tcp\n", "  -> 10.244.0.1:80 ready serving\n",
		"  -> 10.244.0.2:80 ready serving\n"
	if got := objecttest.All(store); got != front+one+two {
		t.Errorf("after the release\n%s", got)
	}
	cache.Replace(KindEndpointSlice, []Object{b})
	if got := objecttest.All(store); got != front+two {
		t.Errorf("without a\n%s", got)
	}
	before, _ := cache.Changes()
	cache.Replace(KindService, []Object{Trim(svc, cache.opts)})
	if after, _ := cache.Changes(); after != before {
		t.Error("an object in the version that is known is a change")
	}
	cache.Set(objecttest.Node("z1"))
	cache.Replace(KindNode, nil)
	cache.Replace(KindService, nil)
	cache.Replace(KindEndpointSlice, nil)
	if _, has := cache.Node(); has || objecttest.All(store) != "" || len(cache.entries)+len(cache.slices) > 0 {
		t.Error("left over:", has, objecttest.All(store), cache.entries, cache.slices)
	}
}
